//! Traps: calls that would go on and on inside of one function, where the interpreter does not look whether to end. Each
//! ends because its script is to, which shows in the error, and not in the time that it took.

use super::Lua;
use crate::error::Error;
use crate::procedure::budget::KILLED;
use crate::procedure::{Call, Host, Language, LogLevel, Registry, Watch};
use crate::reply::Reply;
use std::sync::Arc;
use std::time::Instant;

/// The time limit of these scripts, milliseconds.
const LIMIT_MS: u64 = 30;
const LATE: &str = "CANCELLED the procedure ran for longer than procedure-time-limit allows";

/// A host whose every command dooms the script that calls it, and wakes nobody up to tell the interpreter.
struct Doom(Arc<Watch>);

impl Host for Doom {
    fn call(&mut self, _: &[&[u8]]) -> Reply {
        assert!(self.0.cancel(0));
        Reply::Ok
    }
    fn permits(&self, _: &[&[u8]]) -> Option<bool> {
        None
    }
    fn set_protocol(&mut self, _: u8) {}
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn monotonic_ns(&mut self) -> u64 {
        0
    }
}

/// The error of a script, which may run so long.
fn error(text: &str, limit_ms: u64) -> String {
    let watch = Arc::new(Watch::default());
    let (mut lua, mut registry) = (Lua::new(watch.clone()), Registry::default());
    let started = Instant::now();
    if limit_ms > 0 {
        watch.set_time_limit(limit_ms, 0);
    }
    let id = registry.add(text.as_bytes()).unwrap().0;
    let script = registry.get(id).unwrap();
    lua.prepare(id, script).unwrap();
    let call = Call {
        name: b"trap",
        words: None,
        keys: &[],
        args: &[],
        now_ns: started.elapsed().as_nanos() as u64,
        memory_bytes_max: 64 << 20,
        growth_bytes_max: usize::MAX,
        is_atomic: false,
    };
    match lua.run(&mut Doom(watch), id, &call).reply {
        Reply::Error(Error { message, .. }) => message.split(" script: ").next().unwrap_or_default().into(),
        other => format!("{text} gave {other:?}"),
    }
}

#[test]
fn functions_of_ours_look_whether_to_end() {
    for (before, trap) in [
        ("local s = ('a'):rep(3e4)", "string.find(s, 'a-a-a-b')"),
        ("local s = ('a'):rep(3e4)", "string.match(s, '%f[b]')"),
        ("local s = ('a'):rep(3e4)", "string.match(s, '()b')"),
        ("local s = ('a'):rep(3e4)", "string.match(s, '%bxa')"),
        ("local s = ('a'):rep(3e4)", "string.gsub(s, '', '')"),
        ("local s = ('a'):rep(3e4)", "string.gsub(s, '.', '%0%0')"),
        ("local s = ('a'):rep(3e4)", "string.gsub(s, '.', {})"),
        ("local s = ('a'):rep(3e4)", "string.gsub(s, '.', type)"),
        ("local s = ('a'):rep(3e4)", "string.gmatch(s, '()b')()"),
        // Few steps, and each of them a long one.
        ("local s, p = 'aaa', '[' .. ('b'):rep(1e5) .. ']'", "string.find(s, p)"),
        ("local s, p = 'aaa', '%f[' .. ('b'):rep(1e5) .. ']'", "string.find(s, p)"),
        ("local s = ('a'):rep(1e5)", "string.find(s, '^(a*)%1b', 1)"),
        ("local s = '[' .. ('1,'):rep(1e4) .. '1]'", "cjson.decode(s)"),
        ("local s = '{' .. ('\"a\":1,'):rep(1e4) .. '\"a\":1}'", "cjson.decode(s)"),
        ("local t = {} for i = 1, 1e4 do t[i] = i end", "cjson.encode(t)"),
        ("local t = {} for i = 1, 1e4 do t['k' .. i] = i end", "cjson.encode(t)"),
        ("local t = {} for i = 1, 30 do t = {t, t} end", "cjson.encode(t)"),
        ("local s = ('a'):rep(1e6)", "cjson.encode(s)"),
        ("local s = ('a'):rep(1e6)", "redis.sha1hex(s)"),
        ("local t = {} for i = 1, 1e4 do t[i] = i end", "cmsgpack.pack(t)"),
        ("local t = {} for i = 1, 1e4 do t['k' .. i] = i end", "cmsgpack.pack(t)"),
        ("local t = {} for i = 1, 14 do t = {t, t} end", "cmsgpack.pack(t)"),
        ("local s = '\\221\\255\\255\\255\\255' .. ('\\192'):rep(1e4)", "cmsgpack.unpack(s)"),
        ("local s = '\\223\\255\\255\\255\\255' .. ('\\1\\1'):rep(1e4)", "cmsgpack.unpack(s)"),
        ("local s = ('>'):rep(1e4)", "struct.pack(s)"),
        ("local s = ('>'):rep(1e4)", "struct.unpack(s, '')"),
        ("local s = ('x'):rep(1e4)", "struct.size(s)"),
    ] {
        let text = format!("{before} redis.call('doom') return {trap}");
        assert_eq!(KILLED, error(&text, 0), "{text}");
    }
    // A reply that goes on and on.
    assert_eq!(KILLED, error("local t = {1} for i = 1, 20 do t = {t, t} end redis.call('doom') return t", 0));
}

#[test]
fn no_trap_outlasts_the_limit() {
    let endless = [
        "string.rep('x', 1e6)",
        "string.rep('ab', 1e5, ',')",
        "string.format('%99.99f', 1e300)",
        "string.format('%q', ('\\0'):rep(1e6))",
        "string.find(('a'):rep(1e5), '.-.-.-.-b$')",
        "string.gsub(('a'):rep(1e5), '.-.-.-.-b$', '')",
        "string.reverse(('a'):rep(1e6))",
        "table.concat({('a'):rep(1e6), ('b'):rep(1e6)})",
        "cjson.encode({('a'):rep(1e6)})",
        "cmsgpack.unpack(cmsgpack.pack({('a'):rep(1e6)}))",
        "struct.pack('s', ('a'):rep(1e6))",
        "struct.unpack(('b'):rep(7000), ('a'):rep(7000))",
        "loadstring('local a ' .. ('a = 1 '):rep(1e5))",
        "loadstring('--' .. ('x'):rep(1e6))",
        "unpack({}, 1, 7000)",
        "unpack({}, 1, 1e8)",
        "tonumber(('1'):rep(1e6))",
        "redis.sha1hex(('x'):rep(1e6))",
        "collectgarbage()",
        "error({})",
    ];
    for trap in endless {
        let text = format!("while true do pcall(function() return {trap} end) end");
        assert_eq!(LATE, error(&text, LIMIT_MS), "{text}");
    }
    for text in [
        "local t = {} for i = 1, 4e5 do t[i] = i * 7919 % 100003 end while true do pcall(table.sort, t, function() return true end) end",
        "local t = {} for i = 1, 4e5 do t[i] = i * 7919 % 100003 end while true do pcall(table.sort, t, rawequal) end",
        "local t = {} for i = 1, 4e5 do t[i] = i * 7919 % 100003 end while true do table.sort(t) t[1] = 0 end",
        // Equal but for their ends, so that each comparison takes long.
        "local p = ('x'):rep(1e7) local a, b, t = p .. 'a', p .. 'b', {} for i = 1, 9000 do t[i] = i % 2 == 0 and a or b end \
         table.sort(t)",
        "local m m = setmetatable({}, {__tostring = function() return tostring(m) end}) while true do pcall(tostring, m) end",
        "local m m = setmetatable({}, {__index = function(_, k) return m[k] end}) while true do pcall(function() return m.x end) end",
        "local m m = setmetatable({}, {__concat = function() return m .. m end}) while true do pcall(function() return m .. m end) end",
        "local function f() return coroutine.wrap(f)() end while true do pcall(f) end",
        "local a, b a = coroutine.wrap(function() while true do coroutine.yield() end end) while true do a() end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do pcall(error, setmetatable({}, {__index = function() while true do end end})) end",
        "return load(function() return 'x ' end)",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, table.remove(t)) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.foreach(t, type) end",
    ] {
        assert_eq!(LATE, error(text, LIMIT_MS), "{text}");
    }
}

#[test]
fn what_is_made_of_data_counts_before_it_is_too_much() {
    for trap in [
        // Six bytes of each.
        "cjson.encode(('\\0'):rep(3e7))",
        "peryton.mget('t', t)",
        "string.gsub(('x'):rep(1e7), 'x', ('y'):rep(100))",
        "struct.pack(('c1000'):rep(1e5), unpack({}, 1, 3))",
    ] {
        let text = format!("local t = {{}} for i = 1, 4e6 do t[i] = i end return {trap}");
        let found = error(&text, 0);
        assert!(found.contains("not enough memory") || found.contains("bad argument"), "{trap}: {found}");
    }
}
