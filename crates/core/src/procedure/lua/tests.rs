//! The interpreter as a whole, with a host that knows a handful of commands.

use super::Lua;
use super::state::KILLED;
use crate::error::{Code, Error};
use crate::procedure::{Call, Host, Language, LogLevel, Registry, Watch};
use crate::reply::Reply;
use std::collections::HashMap;
use std::sync::Arc;

/// A host with strings, and commands that answer what a test wants to see converted.
#[derive(Default)]
struct Shop {
    values: HashMap<Vec<u8>, Vec<u8>>,
    replies: HashMap<&'static str, Reply>,
    protocol: u8,
    log: Vec<(LogLevel, String)>,
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
        let call = Call { sha: &script.sha, keys, args, now_ns: 1, memory_bytes_max };
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
    assert_eq!(Reply::Ok, to_ok(bench.run("return redis.call('set', 'k', 5)")));
    assert_eq!(bulk("5"), bench.run("return redis.call('get', 'k')"));
    assert_eq!(Reply::Nil, bench.run("return redis.call('get', 'none')"));
    assert_eq!(bulk("0.10000000000000001"), bench.run("return redis.call('echo', 0.1)"));
}

fn to_ok(reply: Reply) -> Reply {
    if reply == Reply::status("OK") { Reply::Ok } else { reply }
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
    let killer = std::thread::spawn(move || while watch.kill().is_err() {});
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
    let killer = std::thread::spawn(move || while watch.kill().is_err() {});
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
        bench.run("local function f(n) return n == 0 and 0 or 1 + f(n - 1) end return f(10^6)");
        assert_eq!(Reply::Int(1), bench.run("return 1"));
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(deepest).unwrap().join().unwrap();
}
