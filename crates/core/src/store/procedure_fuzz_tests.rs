//! Scripts that nobody would write: a soup of tokens, and programs made by a grammar. Whatever they do, they end, the store
//! serves on, and those that are atomic and fail leave nothing. The seed is printed with what fails.

use super::tests::Client;
use crate::env::Xoshiro;
use crate::reply::Reply;

const WORDS: &str = "and break do else elseif end false for function if in local nil not or repeat return then true until \
     while + - * / % ^ # == ~= <= >= < > = ( ) { } [ ] ; : , . .. ... a b c f t k v _G self 0 1 2 -1 1e308 0x10 '' 'x' \"y\" \
     [[z]] -- --[[ ]] \\n KEYS ARGV string table math coroutine redis peryton cjson cmsgpack struct bit pcall error unpack \
     select setmetatable redis.call redis.pcall peryton.sql peryton.get peryton.call string.rep string.format string.gsub \
     string.find table.sort table.concat table.insert coroutine.wrap coroutine.yield cjson.encode cjson.decode \
     cmsgpack.pack cmsgpack.unpack struct.pack struct.unpack loadstring load xpcall next pairs ipairs tostring tonumber";

const CALLS: &[&str] = &[
    "redis.call",
    "redis.pcall",
    "peryton.sql",
    "peryton.psql",
    "peryton.get",
    "peryton.mget",
    "peryton.call",
    "peryton.prepare",
    "peryton.blob",
    "string.rep",
    "string.format",
    "string.gsub",
    "string.find",
    "string.match",
    "string.byte",
    "string.char",
    "string.sub",
    "string.reverse",
    "table.concat",
    "table.insert",
    "table.remove",
    "table.sort",
    "table.maxn",
    "table.foreach",
    "unpack",
    "select",
    "setmetatable",
    "getmetatable",
    "rawset",
    "rawget",
    "rawequal",
    "next",
    "pairs",
    "ipairs",
    "tostring",
    "tonumber",
    "type",
    "assert",
    "error",
    "pcall",
    "xpcall",
    "loadstring",
    "load",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.wrap",
    "coroutine.yield",
    "coroutine.status",
    "cjson.encode",
    "cjson.decode",
    "cjson.new",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_one",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "math.random",
    "math.floor",
    "math.fmod",
    "redis.sha1hex",
    "redis.error_reply",
    "redis.status_reply",
    "redis.setresp",
    "redis.log",
    "redis.acl_check_cmd",
    "collectgarbage",
    "gcinfo",
    "os.clock",
    "cjson.encode_sparse_array",
    "cjson.encode_max_depth",
    "math.randomseed",
];

const VALUES: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "1e9",
    "-1e308",
    "0/0",
    "1/0",
    "2^53",
    "''",
    "'x'",
    "'k'",
    "'%s%d%q'",
    "'(a*)(.-)%1'",
    "'.-.-.-.-b'",
    "'%b()%f[%w]'",
    "'[^'",
    "'\\255\\0'",
    "('x'):rep(1e5)",
    "{}",
    "{1, 2, 3}",
    "{a = 1, {2}}",
    "KEYS",
    "ARGV",
    "_G",
    "a",
    "b",
    "t",
    "f",
    "cjson.null",
    "print",
    "'SET'",
    "'GET'",
    "'LPUSH'",
    "'LRANGE'",
    "'SQL'",
    "'DEL'",
    "'SELECT * FROM t'",
    "'INSERT INTO t VALUES (?, ?)'",
    "'DELETE FROM t'",
    "'UPDATE t SET v = v || ?'",
    "'t'",
    "'>I4s'",
    "'bBhHlLiIfds'",
    "'[1,{\"a\":[2.5,null]}]'",
    "function(...) return ... end",
    "function(x) return x > 1 end",
    "function() error({err = 'E x'}) end",
    "coroutine.yield",
];

struct Chance(Xoshiro);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn soup(&mut self) -> String {
        let words: Vec<&str> = WORDS.split(' ').collect();
        let count = 1 + self.below(40);
        (0..count).map(|_| self.pick(&words).replace("\\n", "\n") + if self.below(5) == 0 { "" } else { " " }).collect()
    }

    fn expression(&mut self, depth: usize) -> String {
        match self.below(10) {
            _ if depth > 3 => self.pick(VALUES).into(),
            0..=3 => self.pick(VALUES).into(),
            4..=6 => self.call(depth),
            7 => {
                let operator = self.pick(&["+", "-", "*", "/", "%", "^", "..", "==", "<", "and", "or"]);
                format!("({} {operator} {})", self.expression(depth + 1), self.expression(depth + 1))
            }
            8 => format!("{{{}, a = {}}}", self.expression(depth + 1), self.expression(depth + 1)),
            _ => format!("function(...) {} end", self.block(depth + 1)),
        }
    }

    fn call(&mut self, depth: usize) -> String {
        let count = self.below(4);
        let arguments: Vec<String> = (0..count).map(|_| self.expression(depth + 1)).collect();
        format!("{}({})", self.pick(CALLS), arguments.join(", "))
    }

    fn block(&mut self, depth: usize) -> String {
        let count = 1 + self.below(3);
        (0..count).map(|_| self.statement(depth) + "\n").collect()
    }

    fn statement(&mut self, depth: usize) -> String {
        let name = self.pick(&["a", "b", "t", "f"]);
        match self.below(12) {
            _ if depth > 3 => format!("{name} = {}", self.pick(VALUES)),
            0..=2 => format!("{name} = {}", self.expression(depth)),
            3..=5 => format!("local _ = {{pcall(function() return {} end)}}", self.call(depth)),
            6 => format!("local ok = {}", self.call(depth)),
            7 => format!("for i = 1, {} do {} end", self.pick(&["3", "10", "1e3", "1e9"]), self.block(depth + 1)),
            8 => format!("while {} do {} end", self.expression(depth + 1), self.block(depth + 1)),
            9 => format!(
                "if {} then {} else {} end",
                self.expression(depth),
                self.block(depth + 1),
                self.block(depth + 1)
            ),
            10 => format!("for k, v in pairs({}) do {} end", self.expression(depth), self.block(depth + 1)),
            _ => format!("function f(x, ...) {} end", self.block(depth + 1)),
        }
    }

    fn program(&mut self) -> String {
        let body = self.block(0) + &self.block(0) + &self.block(0);
        // Global variables cannot be made, so these are local ones.
        format!("local a, b, t, f = 1, 'b', {{}}, nil\n{body}return {}", self.expression(0))
    }
}

fn digests(client: &Client) -> (u64, u64) {
    let mut baton = client.store.enter();
    let state = baton.state();
    (state.keyspace.digest(), state.tables.digest().unwrap())
}

fn open() -> Client {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"]);
    let library =
        "#!lua name=lib\nredis.register_function('x', function(keys, args) return redis.call('SET', 'x', #args) end)
        redis.register_function{function_name='k', callback=function() error('k') end, flags={'atomic'}}";
    client.call(&["FUNCTION", "LOAD", library]);
    for (name, value) in [("time-limit", "20"), ("memory-limit", "16mb"), ("call-limit", "5000")] {
        assert_eq!(Reply::Ok, client.call(&["CONFIG", "SET", &format!("procedure-{name}"), value]));
    }
    client
}

fn fuzz(seed: u64, programs: usize, make: impl Fn(&mut Chance) -> String) {
    let mut chance = Chance(Xoshiro::from_seed(seed));
    let client = open();
    for number in 0..programs {
        let text = make(&mut chance);
        let is_atomic = chance.below(2) == 0;
        let text = if is_atomic { format!("#!lua flags=atomic\n{text}") } else { text };
        let before = if is_atomic { digests(&client) } else { (0, 0) };
        let reply = client.call(&["EVAL", &text, "1", "k", "1", "x"]);
        assert!(!format!("{reply:?}").contains("panicked"), "seed {seed}, program {number}: {reply:?}\n{text}");
        if is_atomic && reply.is_error() {
            assert_eq!(before, digests(&client), "seed {seed}, program {number}: {reply:?}\n{text}");
        }
        if number % 50 == 0 {
            assert_eq!(Reply::status("PONG"), client.call(&["PING"]));
            client.call(&["CONFIG", "SET", "procedure-time-limit", "0"]);
            let sane = "local t = {3, 1, 2} table.sort(t) return table.concat(t) .. cjson.encode({1, 'a'}) .. #KEYS";
            assert_eq!(Reply::bulk("123[1,\"a\"]0"), client.call(&["EVAL", sane, "0"]), "seed {seed}, before {number}");
            client.call(&["CONFIG", "SET", "procedure-time-limit", "20"]);
        }
    }
}

#[test]
fn a_soup_of_tokens_does_no_harm() {
    for seed in 0..4 {
        fuzz(seed, 1500, Chance::soup);
    }
}

#[test]
fn programs_that_nobody_would_write_do_no_harm() {
    for seed in 0..8 {
        fuzz(seed, 150, Chance::program);
    }
}
