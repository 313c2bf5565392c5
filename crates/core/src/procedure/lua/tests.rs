//! The interpreter as a whole, with a host that knows a handful of commands.

use super::Lua;
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
