//! What clients of Redis rely on, where random sequences of commands seldom lead.

use super::tests::Client;
use super::*;
use crate::error::Code;
use crate::keyspace::Changes;
use crate::keyspace::keys::Expiry;

impl Client {
    /// A line of words as a request.
    fn says(&self, line: &str) -> Reply {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    /// The replies and messages that came without being asked for at that moment.
    fn heard(&self) -> Vec<Reply> {
        std::mem::take(&mut self.store.enter().activate(self.session).unwrap().session().outbox)
    }

    /// What a field of INFO says.
    fn info(&self, field: &str) -> String {
        let Reply::Verbatim(_, text) = self.says("INFO everything") else { panic!() };
        let text = String::from_utf8_lossy(&text).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {field}")).to_string()
    }

    /// The events of the next commands, `event:key` each, as a listener hears them.
    fn events(&self, listener: &Client, lines: &[&str]) -> Vec<String> {
        lines.iter().for_each(|line| drop(self.says(line)));
        let heard = listener.heard();
        heard
            .into_iter()
            .map(|push| {
                let Reply::Push(parts) = push else { panic!("{push:?}") };
                let [_, _, Reply::Bulk(channel), Reply::Bulk(key)] = &parts[..] else { panic!("{parts:?}") };
                let event = String::from_utf8_lossy(channel).rsplit(':').next().unwrap_or_default().to_string();
                format!("{event}:{}", String::from_utf8_lossy(key))
            })
            .collect()
    }
}

#[test]
fn only_look_ups_of_commands_that_read_are_counted() {
    let client = Client::new();
    for write in [
        "SET k 1",
        "INCR k",
        "APPEND none x",
        "RPUSH l a",
        "LPUSHX no a",
        "ZADD no XX 1 a",
        "SETRANGE k 9 x",
        "EXPIRE no 9",
    ] {
        client.says(write);
    }
    assert_eq!(("0", "0"), (&*client.info("keyspace_hits"), &*client.info("keyspace_misses")));
    for read in ["GET k", "EXISTS k no", "TTL no", "TYPE k", "ZUNION 1 no", "OBJECT ENCODING no", "SORT no STORE k2"] {
        client.says(read);
    }
    assert_eq!(("3", "5"), (&*client.info("keyspace_hits"), &*client.info("keyspace_misses")));
}

#[test]
fn a_key_is_new_only_when_it_was_not_there() {
    for recorded in [false, true] {
        let client = Client::new();
        if recorded {
            client.says("DEBUG EFFECTS START");
        }
        let listener = client.another();
        client.says("CONFIG SET notify-keyspace-events En");
        listener.says("PSUBSCRIBE *");
        let lines = ["SET s 1", "INCR s", "SET s text", "GETSET s 2", "RPUSH l a", "RPUSH l b", "SORT l ALPHA STORE m"];
        assert_eq!(["new:s", "new:l", "new:m"], *client.events(&listener, &lines));
        assert_eq!(["new:m"], *client.events(&listener, &["SORT l ALPHA STORE m", "RENAME l m", "SET s x"]));
        assert_eq!(["new:c", "new:c"], *client.events(&listener, &["COPY s c", "COPY s c REPLACE"]));
    }
}

#[test]
fn the_check_of_effects_sees_a_change_that_left_none() {
    let client = Client::new();
    let sequence =
        ["ZADD z 1 a -0 b", "SPOP t 2", "EXPIRE z 100", "RENAME z y", "SWAPDB 0 1", "FLUSHALL", "SET s 1", "INCR s"];
    let run = || {
        assert_eq!(Reply::Ok, client.says("DEBUG EFFECTS START"));
        client.says("SADD t 1 2 3 x");
        sequence.iter().for_each(|line| drop(client.says(line)));
    };
    run();
    assert_eq!(Reply::Ok, client.says("DEBUG EFFECTS CHECK"));
    assert_eq!(Reply::Int(0), client.says("DBSIZE"));
    run();
    {
        let mut baton = client.store.enter();
        let (state, mut nobody) = (baton.state(), Changes::default());
        state.keyspace.keys(0, 0, &mut nobody).set_string(b"s", b"behind the back", Expiry::Clear);
    }
    assert!(client.error(&["DEBUG", "EFFECTS", "CHECK"]).contains("give another state"));
}

#[test]
fn a_transaction_that_changes_the_protocol_answers_in_both() {
    let client = Client::new();
    for line in ["MULTI", "PING", "HELLO 3", "PING", "EXEC"] {
        let reply = client.says(line);
        if line == "EXEC" {
            let Reply::Array(replies) = reply else { panic!("{reply:?}") };
            assert_eq!(Reply::As(2, Box::new(Reply::status("PONG"))), replies[0]);
            assert!(matches!(&replies[1], Reply::Map(_)));
            assert_eq!(Reply::status("PONG"), replies[2]);
        }
    }
}

#[test]
fn a_move_that_waits_fails_only_for_its_destination() {
    let client = Client::new();
    let (mover, popper) = (client.another(), client.another());
    client.says("SET to text");
    assert_eq!(Reply::None, mover.says("BLMOVE from to LEFT LEFT 0"));
    assert_eq!(Reply::None, popper.says("BLPOP from 0"));
    // A source of another type is not what it waits for.
    client.says("SET from text");
    client.says("DEL from");
    assert!(mover.heard().is_empty());
    client.says("RPUSH from a");
    let answers = mover.heard();
    assert!(matches!(&answers[..], [Reply::Error(error)] if error.code == Code::WrongType), "{answers:?}");
    let popped = popper.heard();
    assert_eq!(vec![Reply::bulks(["from", "a"])], popped);
}

#[test]
fn results_of_sorted_sets_keep_minus_zero() {
    let client = Client::new();
    client.says("ZADD z 0 a 0 b");
    let negative = |reply: Reply| match reply {
        Reply::Pairs(pairs) => pairs.iter().all(|(_, score)| matches!(score, Reply::Double(s) if s.is_sign_negative())),
        other => panic!("{other:?}"),
    };
    assert!(negative(client.says("ZUNION 1 z WEIGHTS -1 WITHSCORES")));
    let many: Vec<String> = (0..200).map(|n| format!("0 member:{n}")).collect();
    client.says(&format!("ZADD large {}", many.join(" ")));
    client.says("ZUNIONSTORE stored 1 large WEIGHTS -1");
    assert!(negative(client.says("ZRANGE stored 0 -1 WITHSCORES")));
}
