//! The interpreter as a whole, with a host that knows a handful of commands.

use super::Lua;
use crate::error::{Code, Error, Result};
use crate::procedure::budget::{KILLED, Kind};
use crate::procedure::{Call, Host, Language, LogLevel, Registry, Watch};
use crate::reply::Reply;
use crate::sql::direct::{Asked, Show};
use crate::sql::records::ShowAt;
use crate::table::datum::{Datum, DatumRef};
use std::collections::HashMap;
use std::sync::Arc;

/// A host with strings, and commands that answer what a test wants to see converted.
#[derive(Default)]
struct Shop {
    values: HashMap<Vec<u8>, Vec<u8>>,
    replies: HashMap<&'static str, Reply>,
    protocol: u8,
    log: Vec<(LogLevel, String)>,
    sql: Vec<Datum>,
}

impl Host for Shop {
    fn call(&mut self, args: &[&[u8]]) -> Reply {
        match (args[0].to_ascii_lowercase().as_slice(), &args[1..]) {
            (b"get", [key]) => Reply::bulk_or_nil(self.values.get(*key)),
            (b"set", [key, value]) => {
                self.values.insert(key.to_vec(), value.to_vec());
                Reply::Ok
            }
            (b"echo", [text]) => Reply::bulk(text),
            (b"answer", [name]) => self.replies[std::str::from_utf8(name).unwrap()].clone(),
            (b"args", args) => Reply::bulks(args),
            _ => Error::new(Code::Err, "Unknown Redis command called from script").into(),
        }
    }
    fn permits(&self, args: &[&[u8]]) -> Option<bool> {
        (args[0] == b"get").then_some(true)
    }
    fn set_protocol(&mut self, version: u8) {
        self.protocol = version;
    }
    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.log.push((level, String::from_utf8_lossy(message).into_owned()));
    }
    fn monotonic_ns(&mut self) -> u64 {
        1_500_000_000
    }
    fn sql(&mut self, text: &[u8], values: &[DatumRef<'_>], show: Show<'_>) -> Result<Asked> {
        self.sql = values.iter().map(|value| DatumRef::to_owned(*value)).collect();
        match text {
            b"rows" => {
                for row in self.sql.chunks(2) {
                    show(&[b"a", b"b"], &row.iter().map(Datum::as_ref).collect::<Vec<_>>())?;
                }
                Ok(Asked::Rows)
            }
            b"count" => Ok(Asked::Changed(values.len() as i64)),
            b"other" => Ok(Asked::Other(Reply::Ok)),
            _ => Err(Error::new(Code::Constraint, "23505 taken")),
        }
    }
    fn rows(&mut self, table: &[u8], keys: &[DatumRef<'_>], columns: Option<&[&[u8]]>, show: ShowAt<'_>) -> Result<()> {
        let columns = columns.unwrap_or(&[b"key", b"table"]);
        for (place, key) in keys.iter().enumerate().filter(|(_, key)| !matches!(key, DatumRef::Int(0))) {
            show(place, columns, &[*key, DatumRef::Text(table)][..columns.len()])?;
        }
        Ok(())
    }
}

/// An interpreter, its scripts and its host.
struct Bench {
    lua: Lua,
    registry: Registry,
    watch: Arc<Watch>,
    shop: Shop,
    memory_bytes_max: usize,
}

impl Bench {
    fn new() -> Self {
        let watch = Arc::new(Watch::default());
        let (lua, registry, shop) = (Lua::new(watch.clone()), Registry::default(), Shop::default());
        Bench { lua, registry, watch, shop, memory_bytes_max: 64 << 20 }
    }

    fn run_with(&mut self, text: &str, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
        let id = match self.registry.find_text(text.as_bytes()) {
            Some(id) => id,
            None => self.registry.add(text.as_bytes()).unwrap().0,
        };
        let script = self.registry.get(id).unwrap();
        if let Err(error) = self.lua.prepare(id, script) {
            return error.into();
        }
        let memory_bytes_max = self.memory_bytes_max;
        let call = Call {
            name: &script.sha,
            words: None,
            keys,
            args,
            now_ns: 1,
            memory_bytes_max,
            growth_bytes_max: usize::MAX,
            is_atomic: false,
        };
        self.lua.run(&mut self.shop, id, &call).reply
    }

    fn run(&mut self, text: &str) -> Reply {
        self.run_with(text, &[], &[])
    }

    /// The error of a script without the script's name.
    fn error(&mut self, text: &str) -> String {
        match self.run(text) {
            Reply::Error(error) => {
                let text = error.to_string();
                text.split(" script: ").next().unwrap_or_default().to_string()
            }
            other => panic!("{text} gave {other:?}"),
        }
    }
}

/// The reply of a script in an interpreter of its own.
fn run(text: &str) -> Reply {
    Bench::new().run(text)
}

fn bulk(text: &str) -> Reply {
    Reply::bulk(text)
}

#[test]
fn values_become_replies() {
    for (text, expected) in [
        ("return 1", Reply::Int(1)),
        ("return 3.99", Reply::Int(3)),
        ("return 1e300", Reply::Int(i64::MIN)),
        ("return 'a\\0b'", bulk("a\0b")),
        ("return true", Reply::Int(1)),
        ("return false", Reply::Nil),
        ("return nil", Reply::Nil),
        ("return", Reply::Nil),
        ("return {1,2,nil,4}", Reply::Array(vec![Reply::Int(1), Reply::Int(2)])),
        ("return {ok='fine'}", Reply::status("fine")),
        ("return {double=3.5}", Reply::Double(3.5)),
    ] {
        assert_eq!(expected, run(text), "{text}");
    }
}

#[test]
fn keys_and_arguments_are_there() {
    let mut bench = Bench::new();
    let reply = bench.run_with("return {KEYS[1], ARGV[1], ARGV[2], #KEYS}", &[b"k"], &[b"a", b"b"]);
    assert_eq!(Reply::Array(vec![bulk("k"), bulk("a"), bulk("b"), Reply::Int(1)]), reply);
    assert_eq!(Reply::Int(0), bench.run("return #KEYS + #ARGV"));
}

#[test]
fn commands_are_called() {
    let mut bench = Bench::new();
    assert_eq!(Reply::status("OK"), bench.run("return redis.call('set', 'k', 5)"));
    assert_eq!(bulk("5"), bench.run("return redis.call('get', 'k')"));
    assert_eq!(Reply::Nil, bench.run("return redis.call('get', 'none')"));
    assert_eq!(bulk("0.10000000000000001"), bench.run("return redis.call('echo', 0.1)"));
    assert_eq!(bulk("1e+20"), bench.run("local call = redis.call return call('echo', 1e20)"));
    let many = "local t = {'args'} for i = 1, 300 do t[i + 1] = i end return #redis.call(unpack(t))";
    assert_eq!(Reply::Int(300), bench.run(many));
}

#[test]
fn replies_have_the_shapes_of_the_protocol() {
    let mut bench = Bench::new();
    let pair = || vec![(bulk("a"), Reply::Int(1))];
    let replies = [
        ("ok", Reply::Ok, "table:ok=OK", "table:ok=OK"),
        ("status", Reply::status("PONG"), "table:ok=PONG", "table:ok=PONG"),
        ("int", Reply::Int(-5), "number:-5", "number:-5"),
        ("bulk", bulk("x"), "string:x", "string:x"),
        ("nil", Reply::Nil, "boolean:false", "nil:nil"),
        ("nilarray", Reply::NilArray, "boolean:false", "nil:nil"),
        ("double", Reply::Double(1.5), "string:1.5", "table:double=1.5"),
        ("bool", Reply::Bool(true), "number:1", "boolean:true"),
        ("big", Reply::BigNumber(b"123"[..].into()), "string:123", "table:big_number=123"),
        (
            "verbatim",
            Reply::Verbatim(*b"txt", b"hi"[..].into()),
            "string:hi",
            "table:verbatim_string={format=txt,string=hi}",
        ),
        ("array", Reply::Array(vec![bulk("a"), Reply::Nil]), "table:1=a,2=false", "table:1=a"),
        ("map", Reply::Map(pair()), "table:1=a,2=1", "table:map={a=1}"),
        ("set", Reply::Set(vec![bulk("a")]), "table:1=a", "table:set={a=true}"),
        ("pairs", Reply::Pairs(pair()), "table:1=a,2=1", "table:1={1=a,2=1}"),
        (
            "error",
            Error::new(Code::WrongType, "no").into(),
            "table:err=WRONGTYPE no,ignore_error_stats_update=true",
            "table:err=WRONGTYPE no,ignore_error_stats_update=true",
        ),
    ];
    let show = "
        local function show(v)
            if type(v) ~= 'table' then return tostring(v) end
            local parts = {}
            for k, x in pairs(v) do
                parts[#parts + 1] = tostring(k) .. '=' .. (type(x) == 'table' and '{' .. show(x) .. '}' or tostring(x))
            end
            table.sort(parts)
            return table.concat(parts, ',')
        end
        redis.setresp(tonumber(ARGV[2]))
        local v = redis.pcall('answer', ARGV[1])
        return type(v) .. ':' .. show(v)";
    for (name, reply, resp2, resp3) in replies {
        bench.shop.replies.insert(name, reply);
        assert_eq!(bulk(resp2), bench.run_with(show, &[], &[name.as_bytes(), b"2"]), "{name}");
        assert_eq!(bulk(resp3), bench.run_with(show, &[], &[name.as_bytes(), b"3"]), "{name}");
        assert_eq!(3, bench.shop.protocol);
    }
}

#[test]
fn special_tables_become_special_replies() {
    let cases = [
        ("return {err='MY bad'}", Error::new(Code::Custom, "MY bad").into()),
        ("return {big_number='12\\r\\n3'}", Reply::BigNumber(b"12  3"[..].into())),
        ("return {verbatim_string={format='md', string='x'}}", Reply::Verbatim(*b"md ", b"x"[..].into())),
        ("return {map={a={set={b=1}}}}", Reply::Map(vec![(bulk("a"), Reply::Set(vec![bulk("b")]))])),
        ("return {double='1', ok=1, err=2}", Reply::Array(vec![])),
        ("redis.setresp(3) return {true, false}", Reply::Array(vec![Reply::Bool(true), Reply::Bool(false)])),
        ("return redis.status_reply('fine')", Reply::status("fine")),
        ("return redis.error_reply('bad')", Error::new(Code::Custom, "ERR bad").into()),
        ("return redis.error_reply('-MY bad')", Error::new(Code::Custom, "MY bad").into()),
        ("return function() end", Reply::Nil),
        ("return cjson.null", Reply::Nil),
    ];
    for (text, expected) in cases {
        assert_eq!(expected, run(text), "{text}");
    }
    let mut deep = &run("local t = {} t[1] = t return t");
    for _ in 0..crate::limits::REPLY_DEPTH_MAX {
        let Reply::Array(items) = deep else { panic!("{deep:?}") };
        deep = &items[0];
    }
    assert_eq!(&Reply::from(Error::err("reached lua stack limit")), deep);
}

#[test]
fn errors_name_script_and_line() {
    let mut bench = Bench::new();
    let full = |bench: &mut Bench, text: &str| match bench.run(text) {
        Reply::Error(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let sha = crate::ds::sha1::hex(b"\nreturn redis.call('nosuch')");
    let expected = format!(
        "ERR Unknown Redis command called from script script: {}, on @user_script:2.",
        String::from_utf8_lossy(&sha)
    );
    assert_eq!(expected, full(&mut bench, "\nreturn redis.call('nosuch')"));
    assert!(full(&mut bench, "\n\nerror('x')").ends_with("on @user_script:3."));
    for (text, expected) in [
        ("error('x')", "ERR user_script:1: x"),
        ("error('x', 0)", "ERR x"),
        ("error()", "ERR nil"),
        ("error({err='MY error'})", "MY error"),
        ("local a return a.b", "ERR user_script:1: attempt to index local 'a' (a nil value)"),
        ("return math.random(0)", "ERR user_script:1: bad argument #1 to 'random' (interval is empty)"),
        ("return ('x'):find(nil)", "ERR user_script:1: bad argument #1 to 'find' (string expected, got nil)"),
        ("redis.call()", "ERR Please specify at least one argument for this redis lib call"),
        ("redis.call({})", "ERR Lua redis lib command arguments must be strings or integers"),
        ("x y", "ERR Error compiling script (new function): user_script:1: '=' expected near 'y'"),
        (
            "local function f() return redis.call('nosuch') end return f()",
            "ERR Unknown Redis command called from script",
        ),
        ("coroutine.wrap(function() redis.call('nosuch') end)()", "ERR Unknown Redis command called from script"),
    ] {
        assert_eq!(expected, bench.error(text), "{text}");
    }
}

#[test]
fn a_commands_error_counts_once() {
    let mut bench = Bench::new();
    let mut counted = |text: &str| {
        let id = bench.registry.add(text.as_bytes()).unwrap().0;
        let script = bench.registry.get(id).unwrap();
        bench.lua.prepare(id, script).unwrap();
        let memory_bytes_max = 64 << 20;
        let (keys, args) = (&[][..], &[][..]);
        let call = Call {
            name: &script.sha,
            words: None,
            keys,
            args,
            now_ns: 1,
            memory_bytes_max,
            growth_bytes_max: usize::MAX,
            is_atomic: false,
        };
        bench.lua.run(&mut bench.shop, id, &call).counted
    };
    assert!(counted("redis.call('nosuch')"));
    assert!(counted("return redis.pcall('nosuch')"));
    assert!(!counted("return redis.error_reply('x y')"));
    assert!(!counted("error('x')"));
    assert!(!counted("return {redis.pcall('nosuch')}"));
}

#[test]
fn caught_errors_are_texts() {
    for (text, expected) in [
        ("local ok, e = pcall(redis.call, 'nosuch') return e", "ERR Unknown Redis command called from script"),
        ("local ok, e = pcall(error, {err='A b'}) return e", "A b"),
        ("local ok, e = pcall(error, 'x', 0) return e", "x"),
        ("local ok, e = xpcall(function() error('x', 0) end, function(m) return 'H' .. m end) return e", "Hx"),
        ("return redis.pcall('nosuch').err", "ERR Unknown Redis command called from script"),
        ("local ok, e = coroutine.resume(coroutine.create(function() error('c', 0) end)) return e", "c"),
    ] {
        assert_eq!(bulk(expected), run(text), "{text}");
    }
}

const READ_ONLY: &str = "ERR user_script:1: Attempt to modify a readonly table";

#[test]
fn shared_tables_are_read_only() {
    let mut bench = Bench::new();
    for text in [
        "x = 1",
        "function f() end",
        "_G.x = 1",
        "redis.call = 1",
        "redis.nosuch = 1",
        "string.find = nil",
        "KEYS = 1",
        "getmetatable('').x = 1",
        "getmetatable('').__index = nil",
        "getmetatable(_G).__index = nil",
        "local r = redis r.call = 1",
        "loadstring('x = 1', '@user_script')()",
        "coroutine.resume(coroutine.create(function() error('unseen') end)) x = 1",
    ] {
        assert_eq!(READ_ONLY, bench.error(text), "{text}");
    }
    for text in ["rawset(_G, 'x', 1)", "setmetatable(_G, {})", "table.insert(redis, 1)", "rawset(string, 'x', 1)"] {
        assert_eq!(READ_ONLY.replace("user_script:1: ", ""), bench.error(text), "{text}");
    }
    let nonexistent =
        |name: &str| format!("ERR user_script:1: Script attempted to access nonexistent global variable '{name}'");
    for name in [
        "x", "print", "dofile", "loadfile", "require", "module", "package", "io", "debug", "jit", "ffi", "newproxy",
        "setfenv", "getfenv",
    ] {
        assert_eq!(nonexistent(name), bench.error(&format!("return {name}")));
    }
    assert_eq!(Reply::Nil, bench.run("return redis.nosuch"));
    assert_eq!(Reply::Nil, bench.run("return os.execute or os.remove or os.exit or os.getenv"));
    let error = bench.error("return loadstring(string.dump(function() return 1 end))()");
    assert_eq!("ERR user_script:1: attempt to call a nil value", error);
}

#[test]
fn guarded_tables_read_like_tables() {
    for (text, expected) in [
        (
            "local n = 0 for k, v in pairs(redis) do if k == 'call' and type(v) == 'function' then n = n + 1 end end return n",
            1,
        ),
        ("return next(redis) ~= nil", 1),
        ("return rawget(redis, 'call') == redis.call", 1),
        ("return _G.redis == redis and _G._G == _G", 1),
        ("return getmetatable('').__index == string", 1),
        ("local n = 0 for k in pairs(_G) do n = n + 1 end return n > 30", 1),
        ("local t = {} for k, v in pairs({1, 2, a = 3}) do t[#t + 1] = v end return #t", 3),
        ("return next({})", 0),
    ] {
        let reply = run(text);
        assert_eq!(if expected == 0 { Reply::Nil } else { Reply::Int(expected) }, reply, "{text}");
    }
}

#[test]
fn nothing_passes_from_script_to_script() {
    let mut bench = Bench::new();
    for text in [
        "KEYS.x = 1 ARGV.x = 1 KEYS[5] = 'a' ARGV[0] = 2 return 1",
        "setmetatable(KEYS, {__index = function() return 'leak' end}) return 1",
        "for i = 1, 100 do ARGV[i] = i end return 1",
        "table.insert(KEYS, 'z') return 1",
        "local k = KEYS k.x = 5 return 1",
        "_G.KEYS.x = 1 return 1",
    ] {
        assert_eq!(Reply::Int(1), bench.run_with(text, &[b"k1", b"k2"], &[b"a"]), "{text}");
        let clean = "local n = 0 for _ in pairs(KEYS) do n = n + 1 end for _ in pairs(ARGV) do n = n + 1 end
            return n == 0 and #KEYS == 0 and getmetatable(KEYS) == nil and KEYS.x == nil and ARGV[1] == nil";
        assert_eq!(Reply::Int(1), bench.run(clean), "{text}");
    }
    let three: &[&[u8]] = &[b"1", b"2", b"3"];
    assert_eq!(Reply::Int(3), bench.run_with("return #KEYS", three, &[]));
    assert_eq!(Reply::Int(1), bench.run_with("return #KEYS", &[b"1"], &[]));
}

#[test]
fn numbers_at_random_are_rediss() {
    let mut bench = Bench::new();
    let mut next = || bench.run("return tostring(math.random())");
    assert_eq!([bulk("0.39646477363839"), bulk("0.84048536971234")], [next(), next()]);
    assert_eq!(bulk("0.17082803611217"), bench.run("math.randomseed(0) return tostring(math.random())"));
    assert_eq!(Reply::Int(75), bench.run("return math.random(100)"));
}

/// Runs a script that never ends, kills it, and checks that the interpreter is as good as before.
fn killed(text: &str) {
    let mut bench = Bench::new();
    let watch = bench.watch.clone();
    let killer = std::thread::spawn(move || {
        while watch.running_since_ns().is_none() {
            std::thread::yield_now();
        }
        watch.kill(Kind::Script)
    });
    assert_eq!("ERR Script killed by user with SCRIPT KILL...", bench.error(text), "{text}");
    assert_eq!(Ok(()), killer.join().unwrap());
    assert_eq!(None, bench.watch.running_since_ns());
    assert_eq!(Reply::Int(500_500), bench.run("local n = 0 for i = 1, 1000 do n = n + i end return n"));
}

#[test]
fn no_script_changes_a_table_of_all() {
    let mut bench = Bench::new();
    for text in [
        "redis.log(1, 'x') -- c\rredis.leak = 1",
        "#\"\nredis.leak = 1 --\"\nreturn redis.sha1hex('x')",
        "\u{feff}redis.leak = 1 return redis.sha1hex('x')",
        "local a = redis.LOG_NOTICE redis.LOG_NOTICE += 1",
        "local a = redis.LOG_NOTICE redis.LOG_NOTICE ~= 1",
        "local a = redis.LOG_NOTICE redis?.leak = 1",
        "local a = {table.concat({}), pcall(function() return 0xe+table:insert('leak') end)}",
        "local a = math.pi for k in pairs({1}) do math.pi *= 2 end",
    ] {
        bench.run(text);
        let intact = "return {redis.leak == nil, table[1] == nil, redis.LOG_NOTICE == 2, math.pi < 4}";
        assert_eq!(Reply::Array(vec![Reply::Int(1); 4]), bench.run(intact), "{text}");
    }
}

#[test]
fn garbage_of_one_script_is_not_in_the_way_of_the_next() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.run("local s = ('x'):rep(3e7) return #s:gsub('x', '')");
        assert_eq!(Reply::Int(30_000_000), bench.run("return #(('x'):rep(3e7))"));
    }
}

#[test]
fn a_runaway_is_killed() {
    killed("while true do end");
    killed("while true do redis.call('get', 'k') end");
}

#[test]
fn catching_errors_does_not_help_against_a_kill() {
    killed("while true do pcall(function() while true do end end) end");
    killed("while true do xpcall(function() while true do end end, function(e) return e end) end");
    killed("local function f() while true do pcall(f) end end f()");
}

#[test]
fn coroutines_are_killed_too() {
    killed("while true do coroutine.resume(coroutine.create(function() while true do end end)) end");
    killed("local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do pcall(c) end");
}

#[test]
fn matching_is_killed_too() {
    killed("return string.find(('a'):rep(200000), '.-.-.-.-b$')");
    killed("while true do pcall(string.gsub, ('a'):rep(100000), '.-.-.-.-b$', '') end");
    killed("for w in string.gmatch(('a'):rep(200000), '.-.-.-.-b$') do end");
}

#[test]
fn nothing_in_the_library_holds_out_against_a_kill() {
    for text in [
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "xpcall(function() error('x') end, function() while true do end end)",
        "local t = {} for i = 1, 200000 do t[i] = (i * 7919) % 200000 end while true do table.sort(t) end",
        "while true do pcall(table.sort, {3, 1, 2, 5, 4, 9, 8, 7, 6, 0}, function() return true end) end",
        "while true do local s = (''):rep(1e9) end",
        "while true do pcall(string.rep, 'x', 1e9) pcall(string.rep, 'x', 1e9, ',') end",
        "local s = ('x'):rep(1e6) while true do pcall(string.format, '%s%s%q', s, s, s) end",
        "while true do pcall(string.gsub, ('x'):rep(1e5), 'x', ('y'):rep(1000)) end",
        "local t = {} for i = 1, 1e5 do t[i] = 'x' end while true do table.concat(t, ',') end",
        "local function f() return 1 + f() end while true do pcall(f) end",
        "local t = {} for i = 1, 60 do t = {t, t} end while true do pcall(cjson.encode, t) end",
        "local t = {} for i = 1, 60 do t = {a = t, b = t} end while true do pcall(cjson.encode, t) end",
        "local t = {} for i = 1, 15 do t = {t, t, t, t} end while true do pcall(cmsgpack.pack, t) end",
        "local s = ('['):rep(900) .. (']'):rep(900) while true do pcall(cjson.decode, s) end",
        "local t = {} for i = 1, 20 do t = {t, t} end while true do redis.pcall('echo', t) pcall(unpack, t, 1, 1e7) end",
        "while true do pcall(loadstring, ('('):rep(1e5) .. '1') end",
        "while true do pcall(error, setmetatable({}, {__tostring = function() while true do end end})) end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
        "while true do collectgarbage() end",
    ] {
        killed(text);
    }
}

#[test]
fn handlers_of_errors_work_as_before() {
    for (text, expected) in [
        (
            "return {xpcall(function(a) return a == nil and 1, 2 end, error, 1)}",
            Reply::Array(vec![Reply::Int(1), Reply::Int(1), Reply::Int(2)]),
        ),
        ("local ok, e = xpcall(function() error({err = 'x'}) end, function(e) return e.err end) return e", bulk("x")),
        ("local ok, e = xpcall(error, function() error('again') end, 1) return e", bulk("error in error handling")),
        (
            "local t = {} for i = 1, 20000 do t[i] = (i * 7919) % 20000 end table.sort(t)
          for i = 2, #t do if t[i - 1] > t[i] then return i end end return 'sorted'",
            bulk("sorted"),
        ),
        ("return (''):rep(5) .. ('x'):rep(3) .. (''):rep(3, ',')", bulk("xxx,,")),
    ] {
        assert_eq!(expected, run(text), "{text}");
    }
}

#[test]
fn memory_is_limited() {
    let mut bench = Bench::new();
    bench.memory_bytes_max = 8 << 20;
    for text in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1e9 do t[#t + 1] = {} end",
        "return ('x'):rep(1e9)",
        "return table.concat({('x'):rep(1e6), ('y'):rep(1e6), ('z'):rep(6e6)})",
        "return string.gsub(('x'):rep(1e5), 'x', ('y'):rep(1000))",
        "return cjson.encode({('\\0'):rep(2e6)})",
        "local t = {} for i = 1, 20 do t[i] = ('x'):rep(1e5) end local s = cjson.encode(t) return cjson.decode('[' .. (s .. ','):rep(9) .. s .. ']')",
        "return struct.pack('c0', ('x'):rep(7e6)) .. 'y'",
        "local s = cmsgpack.pack(('x'):rep(3e6)) return cmsgpack.unpack(s .. s .. s)",
        "return redis.call('answer', 'huge')",
        "return redis.call('answer', 'wide')",
    ] {
        bench.shop.replies.insert("huge", Reply::bulk(vec![b'x'; 20 << 20]));
        bench.shop.replies.insert("wide", Reply::Array(vec![bulk("some text, again and again"); 1_000_000]));
        let error = match bench.run(text) {
            Reply::Error(error) => error.to_string(),
            other => panic!("{text} gave {other:?}"),
        };
        assert!(error.contains("not enough memory"), "{text}: {error}");
        assert_eq!(Reply::Int(2), bench.run("return #{1, 2}"));
        assert!(bench.lua.memory() < 3 << 20, "{text}: {}", bench.lua.memory());
    }
    let argument = vec![b'x'; 9 << 20];
    let reply = bench.run_with("return #ARGV[1]", &[], &[&argument]);
    assert!(matches!(reply, Reply::Error(error) if error.message.contains("not enough memory")));
    assert_eq!(Reply::Int(0), bench.run("return #ARGV"));
}

#[test]
fn garbage_is_collected() {
    let mut bench = Bench::new();
    bench.memory_bytes_max = 8 << 20;
    assert_eq!(Reply::Int(1), bench.run("for i = 1, 300000 do local t = {i, 'x' .. i} end return 1"));
    for i in 0..20_000 {
        let key = format!("key:{i}:{}", "x".repeat(100));
        assert_eq!(Reply::bulk(&key), bench.run_with("return KEYS[1]", &[key.as_bytes()], &[]));
        assert!(bench.lua.memory() < 2 << 20);
    }
    // A script cannot stop it.
    bench.run("collectgarbage('stop') collectgarbage('setpause', 1e6)");
    assert_eq!(Reply::Int(1), bench.run("for i = 1, 300000 do local t = {i, 'x' .. i} end return 1"));
}

#[test]
fn recursion_is_limited() {
    let mut bench = Bench::new();
    for text in [
        "local function f() return 1 + f() end return f()",
        "local function f(s) return (s:gsub('.', f)) end return f('x')",
        "local function f() string.gsub('x', 'x', f) end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k .. 'x'] end return t.a",
        "local function f() return pcall(f) end f() local function g() return 1 + g() end return g()",
        "local function f(x) return load(function() return f(x) end) end return f(1)",
        "local function f() return coroutine.wrap(f)() end f()",
        "local function f() return assert(coroutine.resume(coroutine.create(f))) end f()",
        "local function f() table.sort({3, 2, 1}, function() f() end) end f()",
        "local m = {} m.__lt = function() table.sort({setmetatable({}, m), setmetatable({}, m)}) end m.__lt()",
        "local m = {} m.__tostring = function(t) return string.format('%s', t) end return tostring(setmetatable({}, m))",
        "local function f() string.gsub('x', 'x', coroutine.wrap(function() table.sort({2, 1}, f) end)) end f()",
    ] {
        let error = bench.error(text);
        assert!(error.contains("overflow"), "{text}: {error}");
    }
    let text = "return cjson.decode(('['):rep(1000) .. (']'):rep(1000)) and 1";
    assert_eq!(Reply::Int(1), bench.run(text));
    assert!(bench.error("return cjson.decode(('['):rep(1001))").contains("too many nested data structures (1001)"));
    assert!(bench.error("return cmsgpack.unpack(('\\145'):rep(5000))").contains("overflow"));
    assert!(bench.error("local t = {} t[1] = t return cjson.encode(t)").contains("excessive nesting (1001)"));
}

#[test]
fn a_panic_is_an_error() {
    let mut bench = Bench::new();
    let error = bench.error("return redis.call('answer', 'nothing of that name')");
    assert!(error.starts_with("BUG"), "{error}");
    assert_eq!(Reply::Int(1), bench.run("return 1"));
}

#[test]
fn lines_are_logged() {
    let mut bench = Bench::new();
    bench.run("redis.log(redis.LOG_WARNING, 'a', 5, {}, 'b')");
    assert_eq!(vec![(LogLevel::Warning, "a 5 b".to_string())], bench.shop.log);
    assert_eq!("ERR Invalid debug level.", bench.error("redis.log(9, 'x')"));
    assert_eq!(bulk("1.5"), bench.run("return tostring(os.clock())"));
}

#[test]
fn statements_get_values_and_give_rows_by_column() {
    let mut bench = Bench::new();
    let text = "local rows = peryton.sql('rows', 1, 1.5, 'a', nil, true, '\\255', peryton.blob('t'), 1/0, cjson.null, 2^53 + 2)
        local seen = {}
        for i, row in ipairs(rows) do seen[i] = tostring(row.a) .. ' ' .. tostring(row.b) end
        return seen";
    let expected = ["1 1.5", "a nil", "1 \u{fffd}", "t inf", "nil 9.007199254741e+15"];
    let Reply::Array(seen) = bench.run(text) else { panic!() };
    let lossy =
        |reply: &Reply| if let Reply::Bulk(b) = reply { String::from_utf8_lossy(b).into_owned() } else { panic!() };
    assert_eq!(expected.to_vec(), seen.iter().map(lossy).collect::<Vec<_>>());
    let sent = [
        Datum::Int(1),
        Datum::Real(1.5),
        Datum::text("a"),
        Datum::Null,
        Datum::Int(1),
        Datum::blob(b"\xFF"),
        Datum::blob(b"t"),
        Datum::Real(f64::INFINITY),
        Datum::Null,
        Datum::Real(9_007_199_254_740_994.0),
    ];
    assert_eq!(sent.to_vec(), bench.shop.sql);
    for (text, expected) in [
        ("return peryton.sql('count', 1, nil)", Reply::Int(2)),
        ("return peryton.sql('other')", Reply::status("OK")),
        ("return #peryton.sql('rows')", Reply::Int(0)),
        ("local q = peryton.prepare('count') return q(1, 2, 3) + q()", Reply::Int(3)),
        ("return peryton.psql('no').sqlstate", bulk("23505")),
        ("local ok, e = pcall(peryton.sql, 'no') return e", bulk("CONSTRAINT 23505 taken")),
        ("return peryton.get('t', 7).table", bulk("t")),
        ("return tostring(peryton.get('t', 0))", bulk("nil")),
        ("return peryton.get('t', {7}, {'x'}).x", Reply::Int(7)),
        ("local l = peryton.mget('t', {1, 0, {'k'}}) return {#l, l[1].key, tostring(l[2]), l[3].key}", {
            Reply::Array(vec![Reply::Int(3), Reply::Int(1), bulk("false"), bulk("k")])
        }),
        ("return #peryton.mget('t', {})", Reply::Int(0)),
    ] {
        assert_eq!(expected, bench.run(text), "{text}");
    }
    for (text, expected) in [
        ("peryton.sql('no')", "CONSTRAINT 23505 taken"),
        ("peryton.sql()", "ERR user_script:1: bad argument #1 to 'sql' (string expected, got no value)"),
        (
            "peryton.sql('rows', {})",
            "ERR user_script:1: bad argument #2 to 'sql' (nil, boolean, number, string or peryton.blob expected, got table)",
        ),
        (
            "peryton.get('t', nil)",
            "ERR user_script:1: bad argument #2 to 'get' (a key: a value, or a list of values, expected, got nil)",
        ),
        (
            "peryton.mget('t', {{}})",
            "ERR user_script:1: bad argument #2 to 'mget' (a list of keys, expected, got table)",
        ),
        ("peryton.call('f')", "ERR the data is out of reach here"),
        ("peryton.x = 1", "ERR user_script:1: Attempt to modify a readonly table"),
    ] {
        assert_eq!(expected, bench.error(text), "{text}");
    }
}

/// Runs expressions, each of which must give the text beside it.
fn texts(cases: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (expression, expected) in cases {
        assert_eq!(bulk(expected), bench.run(&format!("return tostring({expression})")), "{expression}");
    }
}

/// Runs expressions, each of which must fail with the message beside it.
fn failures(cases: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (expression, expected) in cases {
        let error = bench.error(&format!("return {expression}"));
        assert_eq!(*expected, error.trim_start_matches("ERR user_script:1: "), "{expression}");
    }
}

#[test]
fn json_is_written_as_by_cjson() {
    texts(&[
        ("cjson.encode({})", "{}"),
        ("cjson.encode({1, 'a', true, cjson.null})", "[1,\"a\",true,null]"),
        ("cjson.encode({a = {b = 1}})", "{\"a\":{\"b\":1}}"),
        ("cjson.encode({[3] = 1})", "[null,null,1]"),
        ("cjson.encode({[1.5] = 2})", "{\"1.5\":2}"),
        ("cjson.encode('a/\"\\\\\\n\\1\\127')", "\"a\\/\\\"\\\\\\n\\u0001\\u007f\""),
        ("cjson.encode({0.1, 1/3, 1e20, 1e14, -0.0})", "[0.1,0.33333333333333,1e+20,1e+14,-0]"),
    ]);
    failures(&[
        ("cjson.encode({[1] = 1, [100] = 2})", "Cannot serialise table: excessively sparse array"),
        ("cjson.encode(print == nil and 1/0)", "Script attempted to access nonexistent global variable 'print'"),
        ("cjson.encode(1/0)", "Cannot serialise number: must not be NaN or Inf"),
        ("cjson.encode(redis.call)", "Cannot serialise function: type not supported"),
        ("cjson.encode({[true] = 1})", "Cannot serialise boolean: table key must be a number or string"),
        ("cjson.encode()", "bad argument #1 to 'encode' (expected 1 argument)"),
    ]);
    let mut bench = Bench::new();
    for (text, expected) in [
        ("cjson.encode_sparse_array(true) return cjson.encode({[20] = 1})", "{\"20\":1}"),
        ("cjson.encode_number_precision(3) return cjson.encode(1/3)", "0.333"),
        ("cjson.encode_invalid_numbers('null') return cjson.encode({1/0})", "[null]"),
        ("cjson.encode_invalid_numbers(true) return cjson.encode({1/0, 0/0})", "[inf,nan]"),
        ("local c = cjson.new() return c.encode(1/3)", "0.33333333333333"),
    ] {
        assert_eq!(bulk(expected), bench.run(text), "{text}");
    }
}

#[test]
fn json_is_read_as_by_cjson() {
    texts(&[
        ("cjson.decode('[1,[2,{\"a\":3}]]')[2][2].a", "3"),
        ("cjson.decode('[null]')[1] == cjson.null", "true"),
        ("cjson.decode(' { \"a\" : -1.5e3 } ').a", "-1500"),
        ("cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\\\\n\"')", "\u{e9}\u{1f600}\n"),
        ("cjson.decode('0x10')", "16"),
        ("cjson.decode('-Infinity')", "-inf"),
    ]);
    failures(&[
        ("cjson.decode('')", "Expected value but found T_END at character 1"),
        ("cjson.decode('[1,]')", "Expected value but found T_ARR_END at character 4"),
        ("cjson.decode('{\"a\":1,}')", "Expected object key string but found T_OBJ_END at character 8"),
        ("cjson.decode('{\"a\" 1}')", "Expected colon but found T_NUMBER at character 6"),
        ("cjson.decode('[1 2]')", "Expected comma or array end but found T_NUMBER at character 4"),
        ("cjson.decode('\"a')", "Expected value but found unexpected end of string at character 3"),
        ("cjson.decode('\"\\\\x\"')", "Expected value but found invalid escape code at character 2"),
        ("cjson.decode('\"\\\\udc00\"')", "Expected value but found invalid unicode escape code at character 2"),
        ("cjson.decode('tru')", "Expected value but found invalid token at character 1"),
        ("cjson.decode('1 2')", "Expected the end but found T_NUMBER at character 3"),
    ]);
}

#[test]
fn message_packs_are_those_of_cmsgpack() {
    let mut bench = Bench::new();
    for (values, expected) in [
        ("1, -1, 128, -33", "01 ff cc80 d0df"),
        ("65536, 2^40, -2^40", "ce00010000 cf0000010000000000 d3ffffff0000000000"),
        ("0.5, 0.1", "ca3f000000 cb3fb999999999999a"),
        ("nil, true, false, 'ab'", "c0 c3 c2 a26162"),
        ("{1, 2}, {a = 1}, {}", "920102 81a16101 90"),
        ("('x'):rep(40)", &format!("d928 {}", "78".repeat(40))),
        ("{{{{{{{{{{{{{{{{{{1}}}}}}}}}}}}}}}}}}", &format!("{} c0", "91".repeat(16))),
    ] {
        let text =
            format!("return (cmsgpack.pack({values}):gsub('.', function(c) return ('%02x'):format(c:byte()) end))");
        assert_eq!(bulk(&expected.replace(' ', "")), bench.run(&text), "{values}");
    }
    for (text, expected) in [
        ("return {cmsgpack.unpack(cmsgpack.pack(1, 'a', {2}))}", 3),
        ("return {cmsgpack.unpack_one('\\1\\2', 1)}", 2),
        ("return {cmsgpack.unpack_limit('\\1\\2\\3', 2)}", 3),
    ] {
        assert!(matches!(bench.run(text), Reply::Array(items) if items.len() == expected), "{text}");
    }
    failures(&[
        ("cmsgpack.unpack('\\193')", "Bad data format in input."),
        ("cmsgpack.unpack('\\163ab')", "Missing bytes in input."),
        ("cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes in input."),
        ("cmsgpack.unpack_one('\\1', 5)", "Start offset 5 greater than input length 1."),
        ("cmsgpack.pack()", "bad argument #0 to 'pack' (MessagePack pack needs input.)"),
    ]);
}

#[test]
fn structs_are_those_of_struct() {
    texts(&[
        ("struct.pack('>I2', 258)", "\u{1}\u{2}"),
        ("struct.pack('<i3', -1) == '\\255\\255\\255'", "true"),
        ("struct.unpack('>I2', '\\1\\2')", "258"),
        ("struct.unpack('i1', '\\255')", "-1"),
        ("struct.unpack('Bc0', '\\3abcdef')", "abc"),
        ("select(2, struct.unpack('Bs', '\\1abc\\0'))", "abc"),
        ("struct.unpack('d', struct.pack('d', 0.1))", "0.1"),
        ("struct.unpack('>I16', struct.pack('>I16', 258))", "258"),
        ("struct.size('!8 b d')", "16"),
        ("struct.size('bhl')", "11"),
    ]);
    failures(&[
        ("struct.pack('q', 1)", "bad argument #1 to 'pack' (invalid format option 'q')"),
        ("struct.pack('I40', 1)", "integral size 40 is larger than limit of 32"),
        ("struct.pack('!3b', 1)", "alignment 3 is not a power of 2"),
        ("struct.unpack('I4', 'abc')", "bad argument #2 to 'unpack' (data string too short)"),
        ("struct.unpack('s', 'abc')", "unfinished string in data"),
        ("struct.unpack('c0', 'abc')", "format 'c0' needs a previous size"),
        ("struct.unpack('B', 'abc', -1)", "bad argument #2 to 'unpack' (data string too short)"),
        ("struct.size('s')", "bad argument #1 to 'size' (option 's' has no fixed size)"),
    ]);
}

#[test]
fn strings_match_as_in_lua() {
    texts(&[
        ("string.find('hello', 'l+')", "3"),
        ("select('#', string.find('hello', '(l)(l)'))", "4"),
        ("string.find('a.b', '.', 2, true)", "2"),
        ("string.find('abc', '', 10)", "4"),
        ("string.match('key=val', '=(%w+)')", "val"),
        ("(string.gsub('hello', '(l)(l)', '%2%1%0%%'))", "hellll%o"),
        ("(string.gsub('hello', 'l', {l = 'X'}))", "heXXo"),
        ("(string.gsub('hello', 'l', string.upper, 1))", "heLlo"),
        ("(string.gsub('abc', 'b', setmetatable({}, {__index = function(_, k) return k .. k end})))", "abbc"),
        ("select(2, string.gsub('abc', '', '-'))", "4"),
        ("bit.tohex(bit.bxor(0xff00, 0x0ff0))", "0000f0f0"),
    ]);
    failures(&[
        ("string.find('a', '[a')", "malformed pattern (missing ']')"),
        ("string.gsub('a', 'a', function() return {} end)", "invalid replacement value (a table)"),
        ("string.gsub('a', 'a', true)", "bad argument #3 to 'gsub' (string/function/table expected)"),
        ("string.gsub('a', 'a', function() error('boom', 0) end)", "ERR boom"),
    ]);
    let text = "local t = {} for k, v in string.gmatch('a=1,b=2', '(%w)=(%w)') do t[#t + 1] = k .. v end return t";
    assert_eq!(Reply::Array(vec![bulk("a1"), bulk("b2")]), run(text));
}

#[test]
fn forgotten_scripts_are_compiled_again() {
    let mut bench = Bench::new();
    for n in 0..crate::limits::SCRIPTS_EVALLED_MAX as i64 + 100 {
        let text = format!("return {n}");
        let (id, is_reused) = bench.registry.add(text.as_bytes()).unwrap();
        if is_reused {
            bench.lua.forget(id);
        }
        assert_eq!(Reply::Int(n), bench.run(&text));
    }
    assert!(bench.lua.memory() < 8 << 20, "{}", bench.lua.memory());
}

#[test]
fn a_reply_without_end_is_refused() {
    let mut bench = Bench::new();
    let error = bench.error("local t = {1} for i = 1, 40 do t = {t, t} end return t");
    assert_eq!("ERR the script's reply has more than 8388608 elements", error);
    let error = bench.error("local s, t = string.rep('x', 2^20), {} for i = 1, 1000 do t[i] = s end return t");
    assert_eq!("ERR the script's reply has strings of more than 536870912 bytes", error);
    let error = bench.error("local s, t = string.rep('x', 2^20), {} for i = 1, 1000 do t[i] = {ok = s} end return t");
    assert_eq!("ERR the script's reply has strings of more than 536870912 bytes", error);
    let looped = "local t = {} for i = 1, 8 do t[i] = t end return t";
    assert!(bench.error(looped).starts_with("ERR the script's reply has more than"));
    assert_eq!(Reply::Int(1), bench.run("return 1"));
    assert_eq!(None, bench.watch.running_since_ns());
}

#[test]
fn a_reply_that_takes_long_can_be_killed() {
    let mut bench = Bench::new();
    let watch = bench.watch.clone();
    let killer = std::thread::spawn(move || while watch.kill(Kind::Script).is_err() {});
    let error = bench.error("local t = {1} for i = 1, 22 do t = {t, t} end return t");
    killer.join().unwrap();
    assert_eq!(KILLED, error);
}

#[test]
fn a_flushed_interpreter_leaves_the_new_one_its_interrupt() {
    let mut bench = Bench::new();
    let old = std::mem::replace(&mut bench.lua, Lua::new(bench.watch.clone()));
    drop(old);
    let watch = bench.watch.clone();
    let killer = std::thread::spawn(move || while watch.kill(Kind::Script).is_err() {});
    assert_eq!(KILLED, bench.error("while true do end"));
    killer.join().unwrap();
}

#[test]
fn the_deepest_data_fits_a_small_stack() {
    let deepest = || {
        let mut bench = Bench::new();
        let nest = "local s = string.rep('[', 1000) .. string.rep(']', 1000) ";
        assert_eq!(Reply::Int(2000), bench.run(&format!("{nest} return #cjson.encode(cjson.decode(s))")));
        assert!(matches!(bench.run("return cjson.decode(string.rep('[', 100000))"), Reply::Error(_)));
        let nest = "local t = {} for i = 1, 900 do t = {t} end";
        assert!(matches!(bench.run(&format!("{nest} return cmsgpack.unpack(cmsgpack.pack(t))")), Reply::Array(_)));
        assert!(matches!(bench.run(&format!("{nest} return t")), Reply::Array(_)));
        bench.run("local function f(n) return (string.gsub('a', 'a', function() return f(n + 1) end)) end return f(1)");
        assert_eq!(Reply::Int(1), bench.run("return (string.find(string.rep('a', 190), string.rep('a?', 190)))"));
        for nested in [
            "local function f() return coroutine.wrap(f)() end return pcall(f)",
            "local function f() table.sort({3, 2, 1}, function() f() end) end return pcall(f)",
            "local m = {} m.__tostring = function(t) return ('%s'):format(t) end return pcall(tostring, setmetatable({}, m))",
            "local function f() local ok, e = coroutine.wrap(function() ('x'):gsub('x', f) end)() end return pcall(f)",
        ] {
            assert!(!matches!(bench.run(nested), Reply::Error(_)), "{nested}");
        }
        bench.run("local function f(n) return n == 0 and 0 or 1 + f(n - 1) end return f(10^6)");
        assert_eq!(Reply::Int(1), bench.run("return 1"));
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(deepest).unwrap().join().unwrap();
}
