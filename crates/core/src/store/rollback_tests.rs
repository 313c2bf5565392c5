//! The rollback property: an atomic routine that fails at any step leaves keys, tables and log exactly as before. Random
//! routines over keys of all types and over tables, a printed seed.

use super::tests::Client;
use crate::env::Xoshiro;
use crate::keyspace::Wants;
use crate::reply::Reply;

/// Does what it is told, step by step, and fails where it is told. A step may be a call of itself.
const ROUTINES: &str = "#!lua name=lib
local function run(keys, args)
  for _, text in ipairs(args) do
    local step = cjson.decode(text)
    local what = table.remove(step, 1)
    if what == 'sql' then
      peryton.psql(unpack(step))
    elseif what == 'command' then
      redis.pcall(unpack(step))
    elseif what == 'call' then
      pcall(peryton.call, table.remove(step, 1), keys, step)
    elseif what == 'error' then
      error('told to')
    elseif what == 'reply' then
      return redis.error_reply('MY told to')
    elseif what == 'spend' then
      while true do redis.pcall('GET', 'k0') end
    end
  end
  return 1
end
redis.register_function{function_name = 'atomic', callback = run, flags = {'atomic'}}
redis.register_function('plain', run)";

/// Makes commands, statements and routines at random.
pub(super) struct Chance(pub Xoshiro);

impl Chance {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn key(&mut self) -> String {
        format!("k{}", self.below(12))
    }

    fn number(&mut self) -> String {
        self.below(20).to_string()
    }

    /// A command with its words filled in: K a key, N a number, V a value.
    pub fn command(&mut self) -> Vec<String> {
        let form = self.pick(&COMMANDS);
        let mut word = |word: &str| match word {
            "K" => self.key(),
            "N" => self.number(),
            "V" => match self.below(4) {
                0 => self.number(),
                1 => "x".repeat(self.below(300) as usize),
                2 => format!("v{}", self.below(6)),
                _ => format!("{}.5", self.below(9)),
            },
            word => word.to_string(),
        };
        form.split(' ').map(&mut word).collect()
    }

    pub fn statement(&mut self, definitions: bool) -> Vec<String> {
        let forms = if definitions && self.below(6) == 0 { &DEFINITIONS[..] } else { &STATEMENTS[..] };
        let form = self.pick(forms);
        let text: String = form
            .split(' ')
            .map(|word| match word {
                "N" => self.number() + " ",
                "K" => format!("'{}' ", self.key()),
                word => format!("{word} "),
            })
            .collect();
        vec![text.trim().to_string()]
    }

    /// Steps of a routine, as JSON.
    pub fn steps(&mut self, depth: usize, definitions: bool) -> Vec<String> {
        let count = 1 + self.below(8);
        let mut steps = Vec::new();
        for _ in 0..count {
            let (what, words) = match self.below(10) {
                0..=5 => ("command", self.command()),
                6..=8 => ("sql", self.statement(definitions)),
                _ if depth < 3 => {
                    let mut words = vec![self.pick(&["atomic", "plain"]).to_string()];
                    words.extend(self.steps(depth + 1, definitions));
                    ("call", words)
                }
                _ => continue,
            };
            steps.push(json(what, &words));
        }
        if depth > 0 && self.below(3) == 0 {
            self.spoil(&mut steps);
        }
        steps
    }

    /// Makes a routine fail at a random step.
    pub fn spoil(&mut self, steps: &mut Vec<String>) {
        let at = self.below(steps.len() as u64 + 1) as usize;
        let how = self.pick(&["error", "reply", "spend"]);
        steps.insert(at, json(how, &[]));
    }
}

fn json(what: &str, words: &[String]) -> String {
    let quoted = |word: &str| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
    let all: Vec<String> = std::iter::once(what).chain(words.iter().map(String::as_str)).map(quoted).collect();
    format!("[{}]", all.join(","))
}

const COMMANDS: [&str; 62] = [
    "SET K V",
    "SET K V EX 1000",
    "SET K V KEEPTTL",
    "SETNX K V",
    "GETSET K V",
    "GETDEL K",
    "APPEND K V",
    "INCR K",
    "INCRBYFLOAT K V",
    "SETRANGE K N V",
    "SETBIT K N 1",
    "BITOP NOT K K",
    "MSET K V K V",
    "PFADD K V",
    "DEL K",
    "DEL K K",
    "UNLINK K",
    "EXPIRE K 1000",
    "EXPIRE K 2000 GT",
    "EXPIRE K -1",
    "PERSIST K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K REPLACE",
    "MOVE K 1",
    "LPUSH K V V",
    "RPUSH K V V V",
    "LPOP K",
    "RPOP K 2",
    "LSET K N V",
    "LINSERT K BEFORE V V",
    "LREM K 0 V",
    "LTRIM K 1 3",
    "LMOVE K K LEFT RIGHT",
    "HSET K V V V V",
    "HDEL K V V",
    "HINCRBY K V N",
    "HINCRBYFLOAT K V V",
    "SADD K V V V",
    "SADD K N N N",
    "SREM K V",
    "SMOVE K K V",
    "SPOP K",
    "SUNIONSTORE K K K",
    "SDIFFSTORE K K K",
    "ZADD K N V N V",
    "ZADD K XX CH N V",
    "ZINCRBY K N V",
    "ZREM K V",
    "ZPOPMIN K",
    "ZREMRANGEBYRANK K 0 1",
    "ZUNIONSTORE K 2 K K",
    "ZRANGESTORE K K 0 3",
    "SORT K ALPHA STORE K",
    "GETEX K EX 500",
    "SWAPDB 0 1",
    "FLUSHDB",
    "FLUSHALL",
    "SELECT 1",
    "SELECT 0",
    "TABLE.PUT t id N name V",
    "TABLE.DEL t N",
];

const STATEMENTS: [&str; 16] = [
    "INSERT INTO t (id, name, n) VALUES ( N , K , N )",
    "INSERT OR REPLACE INTO t (id, name, n) VALUES ( N , K , N ), ( N , K , N )",
    "INSERT INTO t (id, n) SELECT id + 20, n FROM t WHERE id < N",
    "UPDATE t SET n = n + N",
    "UPDATE t SET id = id + 1 WHERE id > N",
    "UPDATE t SET name = K WHERE n = N",
    "DELETE FROM t WHERE id = N",
    "DELETE FROM t WHERE n > N",
    "DELETE FROM t WHERE id > 20",
    "TRUNCATE TABLE t",
    "INSERT INTO auto (v) VALUES ( N ), ( N )",
    "DELETE FROM auto WHERE id % 3 = 0",
    "INSERT INTO child VALUES ( N , N )",
    "DELETE FROM child WHERE id > N",
    "SELECT id, n FROM t STORE INTO HASH K",
    "DELETE FROM keys WHERE key = K",
];

const DEFINITIONS: [&str; 12] = [
    "CREATE TABLE made (x INT PRIMARY KEY, y TEXT)",
    "DROP TABLE made",
    "INSERT INTO made SELECT id, name FROM t",
    "CREATE INDEX i ON t (n, id) USING BTREE",
    "DROP INDEX i",
    "DROP TABLE auto",
    "CREATE TRIGGER made_rows AFTER UPDATE ON t CALL plain",
    "CREATE TRIGGER made_keys ON KEYS 'made*' CALL plain",
    "DROP TRIGGER made_rows",
    "DROP TRIGGER made_keys, made_rows",
    "CREATE SCHEDULE made_time EVERY 7 DAYS CALL plain WITH (1)",
    "DROP SCHEDULE made_time",
];

fn open() -> Client {
    prepared(Client::new())
}

/// A store with the tables and the routines.
pub(super) fn prepared(client: Client) -> Client {
    for text in [
        "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, n INT)",
        "CREATE INDEX by_name ON t (name)",
        "CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, v INT UNIQUE)",
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT REFERENCES t (id) ON DELETE CASCADE)",
    ] {
        assert!(!client.call(&["SQL", text]).is_error(), "{text}");
    }
    assert_eq!(Reply::bulk("lib"), client.call(&["FUNCTION", "LOAD", ROUTINES]));
    client.call(&["CONFIG", "SET", "procedure-call-limit", "200"]);
    client
}

/// What is in keys and tables, which triggers and schedules there are, and how much was logged.
pub(super) fn state_of(client: &Client) -> (u64, u64, Vec<String>, usize) {
    let mut baton = client.store.enter();
    let state = baton.state();
    let recorded = state.recorded.as_ref().map_or(0, Vec::len);
    let catalog = &state.tables.catalog;
    let triggers = catalog.triggers().iter().map(|trigger| format!("{trigger:?}"));
    let definitions = triggers.chain(catalog.schedules.iter().map(|schedule| format!("{schedule:?}"))).collect();
    (state.keyspace.digest(), state.tables.digest().unwrap(), definitions, recorded)
}

pub(super) fn fcall(client: &Client, name: &str, steps: &[String]) -> Reply {
    let mut request = vec!["FCALL", name, "0"];
    request.extend(steps.iter().map(String::as_str));
    client.call(&request)
}

pub(super) fn rounds(seed: u64, client: &Client) {
    let mut chance = Chance(Xoshiro::from_seed(seed));
    if seed.is_multiple_of(2) {
        let mut baton = client.store.enter();
        baton.state().wants = Wants::REDO;
        baton.state().recorded = Some(Vec::new());
    }
    for round in 0..150 {
        let (in_multi, in_begin) = (chance.below(6) == 0, chance.below(6) == 0);
        // A transaction of BEGIN gives numbers of sequences away for good, and changes no definitions.
        let mut steps = chance.steps(0, !in_begin);
        if chance.below(3) == 0 {
            fcall(client, "plain", &steps);
            client.call(&["SELECT", "0"]);
            continue;
        }
        chance.spoil(&mut steps);
        if in_begin {
            steps.retain(|step| !step.contains("auto"));
        }
        let before = state_of(client);
        if in_begin || in_multi {
            client.call(&[if in_begin { "BEGIN" } else { "MULTI" }]);
        }
        let reply = fcall(client, "atomic", &steps);
        let failed = match (in_begin, in_multi) {
            (true, _) => {
                assert_eq!(Reply::Ok, client.call(&["COMMIT"]), "seed {seed}, round {round}: {steps:?}");
                reply.is_error()
            }
            (_, true) => matches!(client.call(&["EXEC"]), Reply::Array(replies) if replies[0].is_error()),
            _ => reply.is_error(),
        };
        assert!(failed, "seed {seed}, round {round}: {steps:?}");
        assert_eq!(before, state_of(client), "seed {seed}, round {round}: {steps:?}");
    }
}

#[test]
fn an_atomic_routine_that_fails_leaves_everything_as_before() {
    for seed in 0..24 {
        rounds(seed, &open());
    }
}
