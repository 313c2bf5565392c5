"""The Lua scripts of the scripting tests: each with its keys and arguments, grouped by what they show.

A line of a group is one EVAL: the script, then ``--`` and the number of keys,
the keys and the arguments. Lines of a group run in order on one keyspace.
"""

from __future__ import annotations

_SCRIPTS = {
    "lua_to_resp": """
return
return nil
return 1
return -1
return 3.99
return -3.99
return 1e15
return 1e20
return -1e20
return 0/0
return 1/0
return true
return false
return 'text'
return ''
return '\\0\\255\\r\\n'
return {}
return {1, 2, 'three'}
return {1, nil, 3}
return {1, false, true, 3.7}
return {1, {2, {3, {}}}, {'a'}}
return {a = 1}
return {1, 2, a = 3}
return {[0] = 'zero', 'one'}
return {ok = 'FINE'}
return {err = 'BAD thing'}
return {err = 'no code'}
return {err = ''}
return {ok = ''}
return {ok = 'two\\r\\nlines'}
return {err = 'two\\r\\nlines'}
return {ok = 1}
return {err = 1}
return {err = 'ERR x', ok = 'y'}
return {double = 3.5}
return {double = 1e100}
return {double = 'x'}
return {double = 1/0}
return {double = 0/0}
return {double = 3}
return {map = {a = 1}}
return {map = {a = {b = 2}}}
return {map = {}}
return {set = {a = true}}
return {set = {}}
return {set = {a = 1}}
return {big_number = '12345678901234567890'}
return {big_number = 12}
return {big_number = '1\\r\\n2'}
return {verbatim_string = {format = 'txt', string = 'hello'}}
return {verbatim_string = {format = 'markdown', string = 'hello'}}
return {verbatim_string = {string = 'hello'}}
return {verbatim_string = 'x'}
return {map = 'x'}
return {1, {double = 2.5}, {map = {k = 'v'}}, {set = {m = true}}}
return print
return {print}
return coroutine.create(function() end)
local t = {} t[1] = t return 1
local t = {} for i = 1, 50 do t = {t} end return t
return KEYS -- 2 k1 k2 a1 a2
return ARGV -- 2 k1 k2 a1 a2
return {#KEYS, #ARGV, KEYS[1], ARGV[1], KEYS[9], ARGV[9]} -- 1 k a b
return {KEYS[1], ARGV[1]} -- 1
return 1 -- -1
return 1 -- x
return 1 -- 2 k
""",
    "resp_to_lua": """
return type(redis.call('SET', KEYS[1], 'v')) -- 1 s
return redis.call('SET', KEYS[1], 'v').ok -- 1 s
return redis.call('SET', KEYS[1], 'v') -- 1 s
return {type(redis.call('GET', KEYS[1])), redis.call('GET', KEYS[1])} -- 1 s
return {type(redis.call('GET', 'none')), redis.call('GET', 'none')}
return redis.call('GET', 'none') == false
return redis.call('INCR', 'n') + 0.5
return redis.call('INCRBY', 'n', 9007199254740993)
return tostring(redis.call('INCRBY', 'n', 0))
return redis.call('RPUSH', KEYS[1], 'a', 'b', 'c') -- 1 l
return redis.call('LRANGE', KEYS[1], 0, -1) -- 1 l
return #redis.call('LRANGE', KEYS[1], 0, -1) -- 1 l
return redis.call('MGET', 's', 'none', 's')
return #redis.call('MGET', 's', 'none')
return redis.call('BLPOP', 'none', 0)
return redis.call('LPOP', 'none', 2)
return type(redis.call('LPOP', 'none', 2))
return redis.call('HSET', 'h', 'f', 'v')
return redis.call('HGETALL', 'h')
return #redis.call('HGETALL', 'h')
return redis.call('ZADD', 'z', 1.5, 'a', 2, 'b')
return redis.call('ZSCORE', 'z', 'a')
return type(redis.call('ZSCORE', 'z', 'a'))
return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')
return redis.call('ZSCORE', 'z', 'none')
return redis.call('ZMSCORE', 'z', 'a', 'none')
return redis.call('EXISTS', 's')
return redis.call('TYPE', 'l')
return redis.call('TYPE', 'l')['ok']
return redis.call('PING')
return redis.call('ECHO', 'x')
return redis.call('TIME')[1] + 0 > 1000000000
return redis.call('SET', 's', 'v', 'GET', 'NX')
return redis.call('CONFIG', 'GET', 'maxmemory-policy')
return redis.call('OBJECT', 'ENCODING', 's')
""",
    "resp3_in_lua": """
redis.setresp(3) return redis.call('SET', 's', 'v')
redis.setresp(3) return redis.call('GET', 'none')
redis.setresp(3) return type(redis.call('GET', 'none'))
redis.setresp(3) return redis.call('GET', 'none') == nil
redis.setresp(3) redis.call('HSET', 'h', 'f', 'v') return redis.call('HGETALL', 'h')
redis.setresp(3) return redis.call('HGETALL', 'h').map.f
redis.setresp(3) return type(redis.call('HGETALL', 'h').map)
redis.setresp(3) redis.call('SADD', 't', 'a') return redis.call('SMEMBERS', 't')
redis.setresp(3) return redis.call('SMEMBERS', 't').set.a
redis.setresp(3) redis.call('ZADD', 'z', 1.5, 'a', 3, 'b') return redis.call('ZSCORE', 'z', 'a')
redis.setresp(3) return redis.call('ZSCORE', 'z', 'a').double
redis.setresp(3) return type(redis.call('ZSCORE', 'z', 'a').double)
redis.setresp(3) return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')
redis.setresp(3) return redis.call('ZMSCORE', 'z', 'a', 'none')
redis.setresp(3) return redis.call('MGET', 's', 'none', 's')
redis.setresp(3) return #redis.call('MGET', 's', 'none')
redis.setresp(3) return redis.call('INFO', 'nothing')
redis.setresp(3) return redis.call('LPOP', 'none', 2)
redis.setresp(3) return redis.call('ZADD', 'z', 'INCR', 1, 'a')
redis.setresp(3) return redis.call('CONFIG', 'GET', 'maxmemory-policy')
redis.setresp(3) redis.setresp(2) return redis.call('HGETALL', 'h')
redis.setresp(2) return redis.call('HGETALL', 'h')
redis.setresp(4)
redis.setresp('x')
redis.setresp()
redis.setresp(2, 3)
redis.setresp(3) return nil
redis.setresp(3) return false
redis.setresp(3) return true
redis.setresp(3) return {1, nil, 2}
redis.setresp(3) return {false, true}
redis.setresp(3) return 3.5
return redis.call('HGETALL', 'h')
""",
    "errors": """
return redis.call('NOSUCH')
return redis.pcall('NOSUCH')
return redis.call('GET')
return redis.call('GET', 'a', 'b')
return redis.call()
return redis.pcall()
return redis.call({})
return redis.call('GET', {})
return redis.call('GET', nil)
return redis.call('GET', true)
return redis.call('ECHO', 12)
return redis.call('ECHO', 12.5)
return redis.call('ECHO', 1e20)
return redis.call('ECHO', -0.1)
return redis.call('SET', 's', 'text') and redis.call('INCR', 's')
return redis.call('LPUSH', 's', 'x')
return redis.pcall('LPUSH', 's', 'x')
return redis.pcall('LPUSH', 's', 'x').err
return type(redis.pcall('LPUSH', 's', 'x'))
local e = redis.pcall('LPUSH', 's', 'x') local k = {} for n in pairs(e) do k[#k + 1] = n end table.sort(k) return k
local e = redis.pcall('LPUSH', 's', 'x') return {e.err, e.source, e.line, e.ignore_error_stats_update}
local ok, e = pcall(redis.call, 'LPUSH', 's', 'x') return {tostring(ok), type(e), e.err}
local ok, e = pcall(redis.call, 'LPUSH', 's', 'x') return e
local ok, e = pcall(redis.call, 'LPUSH', 's', 'x') error(e)
local ok, e = pcall(function() error('plain') end) return {tostring(ok), type(e), tostring(e)}
local ok, e = pcall(function() error({err = 'TABLE x'}) end) return e
error('plain')
error('ERR with code')
error({err = 'CODE my error'})
error({err = 'my error'})
error()
error(12)
error(nil)
error('level 0', 0)
error('level 2', 2)
error(true)
error(print)
return redis.error_reply('MY ERR')
return redis.error_reply('-MY ERR')
return redis.error_reply('single')
return redis.error_reply('')
return redis.error_reply('with\\r\\nbreak')
return redis.error_reply()
return redis.error_reply(1)
return redis.error_reply({})
return redis.error_reply('a', 'b')
return redis.error_reply('x').err
return redis.status_reply('FINE')
return redis.status_reply('')
return redis.status_reply('with\\r\\nbreak')
return redis.status_reply()
return redis.status_reply(5)
return redis.status_reply('x').ok
return {redis.error_reply('INSIDE x'), redis.status_reply('Y'), 1}
return {1, {err = 'NESTED x'}}
return x
x = 1
local x = 1 x = 2 return x
return undefined_function()
local function f() return g() end return f()
return 1 -- 0
""",
    "errors_by_line": """
\\n\\nreturn redis.call('NOSUCH')
local x = 1\\nlocal y = nil\\nreturn x + y
local function deep()\\n  local n = redis.call('INCR', 's', 'x')\\n  return n\\nend\\nreturn deep()
\\nerror('on the second')
\\n\\nreturn missing
\\nreturn 1 1
""",
    "the_sandbox": """
return _G.x
_G.x = 1
_G.redis = nil
rawset(_G, 'x', 1) return rawget(_G, 'x')
return rawget(_G, 'nothing')
setmetatable(_G, {})
return getmetatable(_G)
getmetatable('').__index = nil
string.format = nil
table.insert = nil
redis.call = nil
redis.x = 1
math.pi = 4
ARGV.x = 1 return ARGV.x
KEYS[5] = 'x' return KEYS[5]
return print == nil
return type(io)
return type(debug)
return type(package)
return type(string.dump)
return type(math.random)
return loadstring('return 1 + 1')()
return loadstring('return x')()
return setfenv(function() return 7 end, {})()
local n = 0 for k in pairs(_G) do n = n + 1 end return n > 20
local k = {} for n in pairs(redis) do k[#k + 1] = n end table.sort(k) return k
return _VERSION
return tostring(1e15) .. ' ' .. tostring(1e14) .. ' ' .. tostring(0.1) .. ' ' .. 2^53 .. ' ' .. 10 / 2
return string.format('%d %5.2f %s %q %x', 3, 1.005, 'a', 'b"c', 255)
return {string.find('hello', 'l+')}
return {string.gsub('hello world', 'o', '0')}
return table.concat({1, 2, 3}, ',')
return math.floor(-3.5) .. math.max(1, 5, 3) .. math.fmod(7, 3)
return {tonumber('0x10'), tonumber('10', 2), tonumber('x') == nil, tonumber(' 5 ')}
return select('#', 1, nil, nil)
return unpack({1, 2, 3})
local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return {co(), co(), co()}
local co = coroutine.wrap(function() coroutine.yield(redis.call('PING').ok) end) return co()
return string.rep('x', 100)
return #string.rep('x', 1000000)
""",
    "handlers": """
local ok, e = xpcall(function() error('x', 0) end, function(m) return 'H' .. m end) return {tostring(ok), e}
return {xpcall(function() return 5, 6 end, error)}
return {xpcall(function(...) return select('#', ...) end, error, 1, 2)}
local ok, e = xpcall(error, function() error('again') end) return {tostring(ok), e}
local ok, e = xpcall(function() error('x') end, nil) return {tostring(ok), e}
local ok, e = xpcall(nil, function(m) return m end) return {tostring(ok), e}
local ok, e = xpcall(function() return redis.call('NOSUCH') end, function(m) return type(m) end) return e
local ok, e = xpcall(function() error({err = 'MY x'}) end, function(m) return m end) return {type(e), e.err}
local co = coroutine.wrap(function() return xpcall(function() return 1 end, error) end) return {co()}
xpcall()
xpcall(error)
return xpcall(error, print)
local t = {3, 1, 2} table.sort(t) return t
local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t
local t = {} for i = 1, 20000 do t[i] = (i * 7919) % 20011 end table.sort(t) for i = 2, #t do if t[i - 1] > t[i] then return i end end return 'sorted'
local t = {'b', 'a', 'C'} table.sort(t) return t
table.sort({1, 'x'})
table.sort({{}, {}})
table.sort(nil)
table.sort({}, 1)
return {(''):rep(1e9), ('x'):rep(0), ('x'):rep(-1), (''):rep(3)}
string.rep()
string.rep('x')
string.rep('', 'x')
return string.rep('ab', '3')
return string.rep(12, 2)
""",
    "lua_messages": """
return nil .. 'x'
return {} + 1
return #5
local t = nil return t.x
return 1 1
return (
if
return 'open
a = b = c
""",
    "lua_libraries": """
local own = {os = 1, peryton = 1, __redis__err__handler = 1} local k = {} for n in pairs(_G) do if not own[n] then k[#k + 1] = n end end table.sort(k) return k
local k = {} for n in pairs(string) do k[#k + 1] = n end table.sort(k) return k
local k = {} for n in pairs(table) do k[#k + 1] = n end table.sort(k) return k
local k = {} for n in pairs(math) do k[#k + 1] = n end table.sort(k) return k
local k = {} for n in pairs(cjson) do k[#k + 1] = n end table.sort(k) return k
local k = {} for n in pairs(cmsgpack) do k[#k + 1] = n end table.sort(k) return k
local k = {} for n in pairs(struct) do k[#k + 1] = n end table.sort(k) return k
local k = {} for n in pairs(bit) do k[#k + 1] = n end table.sort(k) return k
""",
    "redis_functions": """
return redis.sha1hex('')
return redis.sha1hex('hello')
return redis.sha1hex(12)
return redis.sha1hex()
return redis.sha1hex('a', 'b')
return redis.LOG_DEBUG .. redis.LOG_VERBOSE .. redis.LOG_NOTICE .. redis.LOG_WARNING
return redis.log(redis.LOG_DEBUG, 'quiet')
return redis.log('x', 'y')
return redis.log()
return redis.log(99, 'x')
return type(redis.REDIS_VERSION)
return type(redis.REDIS_VERSION_NUM)
return {redis.REPL_ALL, redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA}
return redis.replicate_commands()
return redis.set_repl(redis.REPL_ALL)
return redis.set_repl(99)
return redis.set_repl()
return redis.breakpoint()
return redis.debug('x')
return redis.acl_check_cmd('GET', 'k')
return redis.acl_check_cmd('NOSUCH')
return redis.acl_check_cmd()
return server
return type(redis.register_function)
return redis.register_function('f', function() end)
""",
    "commands_not_for_scripts": """
return redis.call('MULTI')
return redis.call('EXEC')
return redis.call('WATCH', 'k')
return redis.call('SUBSCRIBE', 'c')
return redis.call('EVAL', 'return 1', 0)
return redis.call('SCRIPT', 'LOAD', 'return 1')
return redis.call('AUTH', 'x')
return redis.call('HELLO', 3)
return redis.call('RESET')
return redis.call('QUIT')
return redis.call('CLIENT', 'ID')
return redis.call('SHUTDOWN', 'NOSAVE', 'x')
return redis.call('DEBUG', 'SLEEP', 0)
return redis.call('SELECT', 1)
return redis.call('SET', 'in', 'zero')
return redis.call('PUBLISH', 'c', 'm')
return redis.call('WAIT', 0, 0)
return redis.call('OBJECT', 'NOPE')
return redis.call('CONFIG', 'NOPE')
return redis.call('get', 'in')
return redis.call('GeT', 'in')
return redis.call('FLUSHALL')
return redis.call('RANDOMKEY')
return redis.call('KEYS', '*')
return redis.call('SPOP', 'none')
""",
    "cjson": """
return cjson.encode({1, 2, 3})
return cjson.encode({})
return cjson.encode({a = 1})
return cjson.encode({[1] = 'a', [3] = 'c'})
return cjson.encode({[1] = 'a', [100] = 'c'})
return cjson.encode('a"b\\\\c/\\n\\t\\1')
return cjson.encode('\\195\\188')
return cjson.encode(1.5)
return cjson.encode(1e20)
return cjson.encode(123456789012345)
return cjson.encode(1234567890123456789)
return cjson.encode(0.1)
return cjson.encode(1/0)
return cjson.encode(0/0)
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode({cjson.null, 1})
return cjson.encode(print)
return cjson.encode()
return cjson.encode(1, 2)
local t = {} t[1] = t return cjson.encode(t)
local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)
return cjson.decode('[1, 2.5, "x", true, false, null]')
return cjson.decode('{"a": {"b": [1]}}').a.b[1]
return cjson.decode('null') == cjson.null
return cjson.decode('"\\\\u00fc\\\\ud83d\\\\ude00"')
return cjson.decode('[]')
return cjson.decode('{}')
return cjson.decode('1e5')
return cjson.decode('0x10')
return cjson.decode('')
return cjson.decode('{')
return cjson.decode('[1,]')
return cjson.decode('[1 2]')
return cjson.decode('nope')
return cjson.decode('{"a": 1} x')
return cjson.decode(nil)
return cjson.decode('[' .. string.rep('[', 2000) .. string.rep(']', 2000) .. ']')
return cjson.encode(cjson.decode('{"k": [1, {"n": null}], "s": "t"}').k)
cjson.encode_keep_buffer(false) return cjson.encode({1})
return cjson.encode_sparse_array(true, 1, 1)
return cjson.encode_max_depth(3)
return cjson.encode_max_depth(1000)
return cjson.encode_number_precision()
return cjson.encode_invalid_numbers()
return cjson.decode_array_with_array_mt
return cjson._NAME
return cjson._VERSION
""",
    "cmsgpack": """
return cmsgpack.pack(1)
return cmsgpack.pack(-1, 128, -129, 65536, 4294967296, -4294967297)
return cmsgpack.pack(1.5, 0.1)
return cmsgpack.pack('x', string.rep('y', 40), string.rep('z', 300))
return cmsgpack.pack(true, false, nil)
return cmsgpack.pack({1, 2, 3})
return cmsgpack.pack({})
return cmsgpack.pack({a = 1})
return cmsgpack.pack({[3] = 'b'})
return cmsgpack.pack({1, {2, {3}}})
return cmsgpack.pack()
return cmsgpack.pack(print)
return cmsgpack.unpack('\\147\\1\\2\\3')
return cmsgpack.unpack(cmsgpack.pack({1, 'x', 2.5, {true}}))
return {cmsgpack.unpack('\\1\\2\\3')}
return cmsgpack.unpack('\\129\\161a\\1').a
return cmsgpack.unpack('\\192')
return cmsgpack.unpack('')
return cmsgpack.unpack('\\147\\1')
return cmsgpack.unpack('\\193')
return {cmsgpack.unpack_one('\\1\\2\\3')}
return {cmsgpack.unpack_one('\\1\\2\\3', 1)}
return {cmsgpack.unpack_one('\\1\\2\\3', 5)}
return {cmsgpack.unpack_limit('\\1\\2\\3', 2)}
return {cmsgpack.unpack_limit('\\1\\2\\3', 0)}
return cmsgpack.unpack_limit('\\1', -1)
local t = {} t[1] = t return #cmsgpack.pack(t)
return cmsgpack._VERSION
""",
    "struct": """
return struct.pack('>I2', 258)
return struct.pack('<I4', 258)
return struct.pack('b', -1)
return struct.pack('>i8', -2)
return struct.pack('f', 1.5)
return struct.pack('d', 1.5)
return struct.pack('s', 'text')
return struct.pack('c3', 'text')
return struct.pack('c0', 'text')
return struct.pack('Bc0', 4, 'text')
return struct.pack('>!4 b I4', 1, 2)
return struct.pack('x')
return struct.pack('z')
return struct.pack('I33', 1)
return struct.pack('I', 'x')
return struct.pack('I')
return struct.pack('c5', 'abc')
return {struct.unpack('>I2', '\\1\\2')}
return {struct.unpack('<I2I2', '\\1\\2\\3\\4')}
return {struct.unpack('b', '\\255')}
return {struct.unpack('s', 'text\\0more')}
return {struct.unpack('Bc0', '\\4texts')}
return {struct.unpack('>I2', '\\1\\2\\3\\4', 3)}
return {struct.unpack('>I2', '\\1')}
return {struct.unpack('s', 'no end')}
return {struct.unpack('>I2', '\\1\\2', 9)}
return {struct.unpack('d', struct.pack('d', 2.5))}
return struct.size('>I2 I4')
return struct.size('!8 b d')
return struct.size('s')
""",
    "bit": """
return bit.band(0xff, 0x0f)
return bit.bor(1, 2, 4)
return bit.bxor(5, 1)
return bit.bnot(0)
return bit.lshift(1, 31)
return bit.lshift(1, 33)
return bit.rshift(-1, 28)
return bit.arshift(-16, 2)
return bit.rol(0x12345678, 12)
return bit.ror(0x12345678, 12)
return bit.bswap(0x12345678)
return bit.tohex(255)
return bit.tohex(255, 4)
return bit.tohex(255, -4)
return bit.tobit(0xffffffff)
return bit.tobit(2^40 + 1)
return bit.band('x')
return bit.band()
return bit.band(1.5, 3)
""",
}


def scripts(group: str) -> list[tuple[str, list[str]]]:
    """The scripts of a group, with the words that follow each in EVAL."""
    found = []
    for line in _SCRIPTS[group].strip("\n").splitlines():
        script, separator, rest = line.partition(" -- ")
        script = script.replace("\\n", "\n") if group == "errors_by_line" else script
        found.append((script, rest.split() if separator else ["0"]))
    return found


GROUPS = list(_SCRIPTS)
