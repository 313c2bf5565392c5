//! Keyspace notifications: their classes, and the letters that `notify-keyspace-events` sets them with.

use bitflags::bitflags;

bitflags! {
    /// Classes of events; the letters are Redis's.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EventClass: u32 {
        /// `K`: publish to `__keyspace@<db>__:<key>`.
        const KEYSPACE = 1;
        /// `E`: publish to `__keyevent@<db>__:<event>`.
        const KEYEVENT = 1 << 1;
        /// `g`: commands of any type (DEL, EXPIRE, RENAME ...).
        const GENERIC = 1 << 2;
        /// `$`: strings.
        const STRING = 1 << 3;
        /// `l`: lists.
        const LIST = 1 << 4;
        /// `s`: sets.
        const SET = 1 << 5;
        /// `h`: hashes.
        const HASH = 1 << 6;
        /// `z`: sorted sets.
        const ZSET = 1 << 7;
        /// `x`: a key's time was up.
        const EXPIRED = 1 << 8;
        /// `e`: a key was evicted.
        const EVICTED = 1 << 9;
        /// `t`: streams.
        const STREAM = 1 << 10;
        /// `m`: a key was not found (not in `A`).
        const KEY_MISS = 1 << 11;
        /// `d`: modules' events.
        const MODULE = 1 << 12;
        /// `n`: a key is new (not in `A`).
        const NEW = 1 << 13;
        /// `A`: all classes of events but misses and new keys.
        const ALL = Self::GENERIC.bits() | Self::STRING.bits() | Self::LIST.bits() | Self::SET.bits()
            | Self::HASH.bits() | Self::ZSET.bits() | Self::EXPIRED.bits() | Self::EVICTED.bits()
            | Self::STREAM.bits() | Self::MODULE.bits();
    }
}

/// Letters in the order in which CONFIG GET shows them.
const LETTERS: [(char, EventClass); 14] = [
    ('g', EventClass::GENERIC),
    ('$', EventClass::STRING),
    ('l', EventClass::LIST),
    ('s', EventClass::SET),
    ('h', EventClass::HASH),
    ('z', EventClass::ZSET),
    ('x', EventClass::EXPIRED),
    ('e', EventClass::EVICTED),
    ('t', EventClass::STREAM),
    ('d', EventClass::MODULE),
    ('n', EventClass::NEW),
    ('K', EventClass::KEYSPACE),
    ('E', EventClass::KEYEVENT),
    ('m', EventClass::KEY_MISS),
];

impl EventClass {
    /// Reads letters such as `KEA`; None when one is unknown.
    pub fn from_letters(letters: &str) -> Option<Self> {
        letters.chars().try_fold(EventClass::empty(), |classes, letter| {
            let class = match letter {
                'A' => EventClass::ALL,
                _ => LETTERS.iter().find(|(l, _)| *l == letter)?.1,
            };
            Some(classes | class)
        })
    }

    /// The letters that give these classes, `A` for all.
    pub fn letters(self) -> String {
        let all = self.contains(EventClass::ALL);
        // Beside `A` Redis 7 shows neither the classes it stands for nor `n`.
        let hidden = if all { EventClass::ALL | EventClass::NEW } else { EventClass::empty() };
        let rest = LETTERS.iter().filter(|(_, class)| self.contains(*class) && !hidden.contains(*class));
        all.then_some('A').into_iter().chain(rest.map(|(letter, _)| *letter)).collect()
    }

    /// What commands should record: nothing unless a channel form (`K` or `E`) is on.
    pub fn effective(self) -> Self {
        if self.intersects(EventClass::KEYSPACE | EventClass::KEYEVENT) { self } else { EventClass::empty() }
    }
}

/// The events that there are, by class.
const EVENTS: [(EventClass, &[&str]); 10] = [
    (
        EventClass::GENERIC,
        &["del", "rename_from", "rename_to", "move_from", "move_to", "copy_to", "restore", "expire", "persist"],
    ),
    (EventClass::STRING, &["set", "setrange", "setbit", "incrby", "incrbyfloat", "append"]),
    (EventClass::LIST, &["lpush", "rpush", "lpop", "rpop", "linsert", "lset", "lrem", "ltrim", "sortstore"]),
    (EventClass::SET, &["sadd", "srem", "spop", "sinterstore", "sunionstore", "sdiffstore"]),
    (EventClass::HASH, &["hset", "hincrby", "hincrbyfloat", "hdel"]),
    (
        EventClass::ZSET,
        &[
            "zadd",
            "zincr",
            "zrem",
            "zremrangebyscore",
            "zremrangebyrank",
            "zremrangebylex",
            "zpopmin",
            "zpopmax",
            "zinterstore",
            "zunionstore",
            "zdiffstore",
            "zrangestore",
            "geosearchstore",
        ],
    ),
    (EventClass::EXPIRED, &["expired"]),
    (EventClass::EVICTED, &["evicted"]),
    (EventClass::KEY_MISS, &["keymiss"]),
    (EventClass::NEW, &["new"]),
];

/// The class of the event of this name, if there is such a one.
pub fn class_of(event: &str) -> Option<EventClass> {
    EVENTS.iter().find(|(_, names)| names.contains(&event)).map(|(class, _)| *class)
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name, such as `set` or `expired`.
    pub name: &'static str,
    /// The key's database.
    pub db: usize,
    /// The key.
    pub key: Box<[u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_read_back() {
        for letters in ["", "KEA", "Kg$", "Ex", "AKE", "AKEmn", "gKEn"] {
            let classes = EventClass::from_letters(letters).unwrap();
            let shown = classes - if classes.contains(EventClass::ALL) { EventClass::NEW } else { EventClass::empty() };
            assert_eq!(EventClass::from_letters(&classes.letters()), Some(shown), "{letters}");
        }
        assert_eq!(EventClass::from_letters("KEA").unwrap().letters(), "AKE");
        assert_eq!(EventClass::from_letters("q"), None);
    }
}
