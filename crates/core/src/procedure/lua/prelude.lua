-- What scripts see: Lua's own functions, made fit for strangers.
--
-- Every table that scripts share is guarded: they get an empty table that reads from the one behind it and refuses to
-- be written. Lua's functions that look at a table itself, past such a guard, are wrapped to look behind it or refuse.
-- Wrappers end in tail calls, so that errors name the script's line and not one of these.
local native = ...
local raw = _G
local raw_next, raw_pairs, raw_rawget, raw_rawset, raw_setmetatable = next, pairs, rawget, rawset, setmetatable
local raw_pcall, raw_loadstring, raw_collectgarbage, raw_insert = pcall, loadstring, collectgarbage, table.insert
local type, concat, error = type, table.concat, error
local refuse, refuse_here, missing = native.refuse, native.refuse_here, native.missing

local behind = {}

local function guard(real, metatable)
  local empty = {}
  behind[empty] = real
  return raw_setmetatable(empty, { __index = real, __newindex = refuse_here, __metatable = metatable or false })
end

local function pick(from, names)
  local picked = {}
  for name in names:gmatch('%S+') do
    picked[name] = from[name]
  end
  return picked
end

local globals = pick(raw, [[assert error gcinfo getmetatable ipairs rawequal select tonumber tostring type unpack
  _VERSION]])

function globals.next(t, key)
  return raw_next(behind[t] or t, key)
end

function globals.pairs(t)
  local real = behind[t]
  if real then
    return function(_, key) return raw_next(real, key) end, t
  end
  return raw_pairs(t)
end

function globals.rawget(t, key)
  return raw_rawget(behind[t] or t, key)
end

function globals.rawset(t, key, value)
  if behind[t] then
    return refuse()
  end
  return raw_rawset(t, key, value)
end

function globals.setmetatable(t, metatable)
  if behind[t] then
    return refuse()
  end
  return raw_setmetatable(t, metatable)
end

-- An error reply that was thrown is caught as its text, as before Redis 7.
local function caught(ok, value, ...)
  if not ok and type(value) == 'table' then
    local text = value.err
    if type(text) == 'string' or type(text) == 'number' then
      value = text
    end
  end
  return ok, value, ...
end

function globals.pcall(f, ...)
  return caught(raw_pcall(f, ...))
end

-- The handler runs when the error is caught, and not where it is raised: there nothing could end it.
local function handled(handler, ok, ...)
  if ok then
    return true, ...
  end
  local well, value = raw_pcall(handler, ...)
  if well then
    return false, value
  end
  return false, 'error in error handling'
end

local select = select
function globals.xpcall(...)
  local f, handler = ...
  if select('#', ...) < 2 then
    return native.no_handler()
  end
  return handled(handler, raw_pcall(f))
end

-- Text only: hand-made bytecode could do anything.
function globals.loadstring(text, name)
  return raw_loadstring(text, name, 't')
end

-- The pieces are joined first, so that the reader never runs inside the compiler.
function globals.load(reader, name)
  local pieces = {}
  for i = 1, 1e9 do
    local piece = reader()
    if piece == nil or piece == '' then
      break
    end
    if type(piece) ~= 'string' then
      return nil, 'reader function must return a string'
    end
    pieces[i] = piece
  end
  return raw_loadstring(concat(pieces), name or '=(load)', 't')
end

-- The collector is shared; a script may ask and hurry it, not stop it.
function globals.collectgarbage(what, argument)
  if what == 'stop' or what == 'restart' or what == 'setpause' or what == 'setstepmul' then
    return 0
  end
  return raw_collectgarbage(what, argument)
end

-- Each coroutine inside another one takes some of the machine's stack, of which there is less than memory for them.
local coroutine = pick(raw.coroutine, 'create running status yield')
local is_deep, raw_resume, raw_wrap = native.is_deep, raw.coroutine.resume, raw.coroutine.wrap
function coroutine.resume(...)
  if is_deep() then
    return false, 'C stack overflow'
  end
  return raw_resume(...)
end
function coroutine.wrap(...)
  local resume = raw_wrap(...)
  return function(...)
    if is_deep() then
      error('C stack overflow', 2)
    end
    return resume(...)
  end
end
local math = pick(raw.math, [[abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max
  min modf pi pow rad sin sinh sqrt tan tanh]])
math.mod = math.fmod
math.random, math.randomseed = native.random, native.randomseed

local table = pick(raw.table, 'concat foreach foreachi getn insert maxn remove sort')
function table.insert(t, ...)
  if behind[t] then
    return refuse()
  end
  return raw_insert(t, ...)
end
-- A long sort compares in Lua, where it can be ended, and so does one whose comparison is no Lua function.
local raw_sort, sorts_long, is_native = raw.table.sort, native.sorts_long, native.is_native
local function less(a, b)
  return a < b
end
function table.sort(t, compare)
  if compare == nil then
    if sorts_long(t) then
      compare = less
    end
  elseif is_native(compare) then
    local given = compare
    function compare(a, b)
      return given(a, b)
    end
  end
  if is_deep() then
    error('C stack overflow', 2)
  end
  return raw_sort(t, compare)
end
function table.setn()
  error("'setn' is obsolete", 2)
end

-- Strings reach this very table through their metatable, so it is changed in place.
local string = raw.string
for _, name in raw_next, { 'find', 'match', 'gmatch', 'gsub' } do
  string[name] = native[name]
end
string.gfind = string.gmatch
local raw_format, has_tables = string.format, native.has_tables
function string.format(...)
  if has_tables(...) and is_deep() then
    error('C stack overflow', 2)
  end
  return raw_format(...)
end
-- Nothing, repeated, is made in no time.
local raw_rep = string.rep
function string.rep(...)
  local text, count, between = ...
  if text == '' and type(count) == 'number' and between == nil then
    return ''
  end
  return raw_rep(...)
end

for name, library in raw_next, { coroutine = coroutine, math = math, table = table, string = string, bit = raw.bit,
  redis = native.redis, peryton = native.peryton, cjson = native.cjson, cmsgpack = native.cmsgpack,
  struct = native.struct, os = { clock = native.clock } } do
  globals[name] = guard(library)
end
getmetatable('').__metatable = guard({ __index = globals.string })

raw_setmetatable(globals, { __index = missing })
globals._G = guard(globals, guard({}))

-- What a library sees while it is loaded: tables `redis` and `peryton` of its own, and no other variable.
raw_setmetatable(native.library, { __index = missing })
raw_setmetatable(native.aside, { __index = missing })
local visible = { redis = guard(native.library), peryton = guard(native.aside) }
local variables = raw_setmetatable(visible, { __index = missing })
local loading = { __index = variables, __newindex = refuse_here, __metatable = false }
return globals._G, globals, behind, loading
