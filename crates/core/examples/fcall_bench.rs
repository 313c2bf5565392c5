//! What a call of a routine costs beside the plain command, in one process: `fcall_bench [rounds]`, `fcall_bench count NAME`
//! for a profile of one kind of call.

use peryton_core::session::{Door, NoWaker};
use peryton_core::store::{Options, Store};
use std::sync::Arc;
use std::time::Instant;

const LIBRARY: &str = "#!lua name=bench
redis.register_function('set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function('get', function(keys) return redis.call('GET', keys[1]) end)
redis.register_function('empty', function() end)
redis.register_function('set_session', function(keys, args)
  redis.call('SET', keys[1], args[1])
  redis.call('SET', keys[2], args[2])
  redis.call('SET', keys[3], args[3])
  redis.call('SET', keys[4], args[4])
end)
redis.register_function('get_session', function(keys, args)
  local user = redis.call('GET', keys[1])
  if not user then return nil end
  local seen = redis.call('GET', keys[2])
  if seen and tonumber(seen) + 3600 < tonumber(args[1]) then return nil end
  return user
end)
redis.register_function('row', function(keys, args) return peryton.get('t', args[1]).name end)
redis.register_function('select', function(keys, args)
  return peryton.sql('SELECT name FROM t WHERE id = ?', args[1])[1].name
end)
redis.register_function('insert', function(keys, args)
  return peryton.sql('INSERT OR REPLACE INTO t VALUES (?, ?)', args[1], 'name')
end)";

const CALLS: [(&str, &str); 11] = [
    ("SET", "SET key:1 value-of-thirty-two-bytes-long..x"),
    ("GET", "GET key:1"),
    ("empty", "FCALL empty 0"),
    ("set", "FCALL set 1 key:1 value-of-thirty-two-bytes-long..x"),
    ("get", "FCALL get 1 key:1"),
    ("set_session", "FCALL set_session 4 s:1:user s:1:seen s:1:ip s:1:agent ann 1000 127.0.0.1 firefox"),
    ("get_session", "FCALL get_session 2 s:1:user s:1:seen 2000"),
    ("eval", "EVAL return~redis.call('SET',KEYS[1],ARGV[1]) 1 key:1 value-of-thirty-two-bytes-long..x"),
    ("row", "FCALL row 0 5"),
    ("select", "FCALL select 0 5"),
    ("insert", "FCALL insert 0 5"),
];

fn main() {
    let store = Store::open(Options::default()).expect("a store");
    let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
    let send = |words: &[&[u8]]| assert!(!store.enter().execute(session, words).is_error());
    send(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    send(&[b"SQL", b"CREATE TABLE t (id INT PRIMARY KEY, name TEXT)"]);
    send(&[b"SQL", b"INSERT INTO t VALUES (5, 'name')"]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let calls = CALLS.map(|(name, words)| {
        let words: Vec<Vec<u8>> = words.split(' ').map(|word| word.replace('~', " ").into_bytes()).collect();
        (name, words)
    });
    let repeat = |words: &[Vec<u8>], count: u64| {
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let mut active = store.enter();
        for _ in 0..count {
            assert!(!active.execute(session, &words).is_error());
        }
    };
    if let [count, name] = &arguments[..] {
        let (_, words) = calls.iter().find(|(known, _)| known == name).expect("a call");
        return repeat(words, count.parse().expect("a number"));
    }
    let rounds = arguments.first().map_or(5, |rounds| rounds.parse().expect("a number"));
    for (name, words) in &calls {
        let best = (0..rounds).map(|_| {
            let begun = Instant::now();
            repeat(words, 200_000);
            begun.elapsed().as_nanos() / 200_000
        });
        println!("{name:12} {:5} ns", best.min().unwrap_or(0));
    }
    store.close();
}
