//! Settings of a store, under Redis's names where the meaning is the same; CONFIG GET and SET read this table.

use crate::error::{Error, Result};
use crate::keyspace::{EventClass, Keyspace};

/// Settings that have no better home. Those of the keyspace live there.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most bytes of memory; 0 is no limit.
    pub maxmemory: u64,
    /// What to evict at the limit.
    pub maxmemory_policy: String,
    /// Requests slower than this go to the slow log, microseconds; negative: none.
    pub slowlog_log_slower_than_us: i64,
    /// Entries kept in the slow log.
    pub slowlog_max_len: usize,
    /// When scripts begin to count as overrunning, milliseconds.
    pub busy_reply_threshold_ms: i64,
    /// The password of the default user; empty: none is asked for.
    pub requirepass: String,
    /// Classes of keyspace notifications.
    pub notify: EventClass,
    /// Most bytes waiting to be sent to an ordinary client: hard limit; 0 is none.
    pub output_buffer_normal: OutputLimit,
    /// The same for a client that subscribed to channels.
    pub output_buffer_pubsub: OutputLimit,
    /// Seconds after which an idle client is closed; 0: never.
    pub timeout_s: u64,
    /// Most clients.
    pub maxclients: usize,
    /// How long one SQL statement may run, milliseconds; 0: for ever.
    pub statement_timeout_ms: u64,
    /// Settings kept only so that clients that set or read them go on working.
    pub inert: Vec<(&'static str, String)>,
}

/// A bound on the bytes waiting to be sent to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Close at once past this many bytes; 0: no limit.
    pub hard_bytes: u64,
    /// Close after `soft_seconds` past this many bytes; 0: no limit.
    pub soft_bytes: u64,
    /// How long the soft limit may be exceeded, seconds.
    pub soft_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            maxmemory: 0,
            maxmemory_policy: "noeviction".into(),
            slowlog_log_slower_than_us: 10_000,
            slowlog_max_len: 128,
            busy_reply_threshold_ms: 5000,
            requirepass: String::new(),
            notify: EventClass::empty(),
            // Redis gives ordinary clients no limit; a bound on everything is our ninth principle.
            output_buffer_normal: OutputLimit { hard_bytes: 1 << 30, soft_bytes: 0, soft_seconds: 0 },
            output_buffer_pubsub: OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 },
            timeout_s: 0,
            maxclients: 10_000,
            statement_timeout_ms: 60_000,
            inert: INERT.iter().map(|(name, value)| (*name, value.to_string())).collect(),
        }
    }
}

/// Settings that clients and test suites read or set, which change nothing here.
const INERT: [(&str, &str); 14] = [
    ("save", ""),
    ("appendonly", "no"),
    ("appendfsync", "everysec"),
    ("databases", "16"),
    ("tcp-keepalive", "300"),
    ("hz", "10"),
    ("dynamic-hz", "yes"),
    ("lazyfree-lazy-eviction", "yes"),
    ("lazyfree-lazy-expire", "yes"),
    ("lazyfree-lazy-server-del", "yes"),
    ("lazyfree-lazy-user-del", "yes"),
    ("activedefrag", "no"),
    ("maxmemory-samples", "5"),
    ("proto-max-bulk-len", "536870912"),
];

/// Where a setting is read and written.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    get: fn(&Config, &Keyspace) -> String,
    set: fn(&mut Config, &mut Keyspace, &str) -> Option<()>,
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Bytes with Redis's units: `1k` is 1000, `1kb` 1024, and so on.
fn bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match &text[digits..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Policies of Redis 7.
const POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

macro_rules! threshold {
    ($name:literal, $field:ident) => {
        Parameter {
            name: $name,
            get: |_, k| k.shared.thresholds.$field.to_string(),
            set: |_, k, v| number(v).map(|n| k.shared.thresholds.$field = n),
        }
    };
}

/// Every setting that does something.
pub static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "maxmemory",
        get: |c, _| c.maxmemory.to_string(),
        set: |c, _, v| bytes(v).map(|n| c.maxmemory = n),
    },
    Parameter {
        name: "maxmemory-policy",
        get: |c, _| c.maxmemory_policy.clone(),
        set: |c, k, v| {
            let policy = POLICIES.iter().find(|p| p.eq_ignore_ascii_case(v))?;
            k.shared.clock.lfu = policy.ends_with("lfu");
            c.maxmemory_policy = policy.to_string();
            Some(())
        },
    },
    Parameter {
        name: "slowlog-log-slower-than",
        get: |c, _| c.slowlog_log_slower_than_us.to_string(),
        set: |c, _, v| number(v).map(|n| c.slowlog_log_slower_than_us = n),
    },
    Parameter {
        name: "slowlog-max-len",
        get: |c, _| c.slowlog_max_len.to_string(),
        set: |c, _, v| number(v).map(|n| c.slowlog_max_len = n),
    },
    Parameter {
        name: "busy-reply-threshold",
        get: |c, _| c.busy_reply_threshold_ms.to_string(),
        set: |c, _, v| number(v).map(|n| c.busy_reply_threshold_ms = n),
    },
    Parameter {
        name: "lua-time-limit",
        get: |c, _| c.busy_reply_threshold_ms.to_string(),
        set: |c, _, v| number(v).map(|n| c.busy_reply_threshold_ms = n),
    },
    Parameter {
        name: "requirepass",
        get: |c, _| c.requirepass.clone(),
        set: |c, _, v| {
            c.requirepass = v.to_string();
            Some(())
        },
    },
    Parameter {
        name: "notify-keyspace-events",
        get: |c, _| c.notify.letters(),
        set: |c, _, v| EventClass::from_letters(v).map(|classes| c.notify = classes),
    },
    Parameter {
        name: "client-output-buffer-limit",
        get: |c, _| {
            let show = |l: OutputLimit| format!("{} {} {}", l.hard_bytes, l.soft_bytes, l.soft_seconds);
            format!(
                "normal {} slave 268435456 67108864 60 pubsub {}",
                show(c.output_buffer_normal),
                show(c.output_buffer_pubsub)
            )
        },
        set: |c, _, v| set_output_limits(c, v),
    },
    Parameter {
        name: "timeout",
        get: |c, _| c.timeout_s.to_string(),
        set: |c, _, v| number(v).map(|n| c.timeout_s = n),
    },
    Parameter {
        name: "maxclients",
        get: |c, _| c.maxclients.to_string(),
        set: |c, _, v| number(v).filter(|n| *n > 0).map(|n| c.maxclients = n),
    },
    Parameter {
        name: "statement-timeout",
        get: |c, _| c.statement_timeout_ms.to_string(),
        set: |c, _, v| number(v).map(|n| c.statement_timeout_ms = n),
    },
    threshold!("hash-max-listpack-entries", hash_entries),
    threshold!("hash-max-ziplist-entries", hash_entries),
    threshold!("hash-max-listpack-value", hash_value),
    threshold!("hash-max-ziplist-value", hash_value),
    threshold!("set-max-intset-entries", set_integers),
    threshold!("zset-max-listpack-entries", zset_entries),
    threshold!("zset-max-ziplist-entries", zset_entries),
    threshold!("zset-max-listpack-value", zset_value),
    threshold!("zset-max-ziplist-value", zset_value),
    threshold!("list-max-listpack-size", list_node),
    threshold!("list-max-ziplist-size", list_node),
];

/// `normal 0 0 0 pubsub 32mb 8mb 60`: any number of groups of four words.
fn set_output_limits(config: &mut Config, text: &str) -> Option<()> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return None;
    }
    for group in words.chunks(4) {
        let limit =
            OutputLimit { hard_bytes: bytes(group[1])?, soft_bytes: bytes(group[2])?, soft_seconds: number(group[3])? };
        match group[0] {
            "normal" => config.output_buffer_normal = limit,
            "pubsub" => config.output_buffer_pubsub = limit,
            "slave" | "replica" => {}
            _ => return None,
        }
    }
    Some(())
}

/// All settings and their values, by name.
pub fn all(config: &Config, keyspace: &Keyspace) -> Vec<(&'static str, String)> {
    let known = PARAMETERS.iter().map(|p| (p.name, (p.get)(config, keyspace)));
    known.chain(config.inert.iter().map(|(name, value)| (*name, value.clone()))).collect()
}

/// Sets one setting; the error is what CONFIG SET says of it.
pub fn set(config: &mut Config, keyspace: &mut Keyspace, name: &str, value: &str) -> Result<()> {
    if let Some(parameter) = PARAMETERS.iter().find(|p| p.name.eq_ignore_ascii_case(name)) {
        return (parameter.set)(config, keyspace, value).ok_or_else(|| {
            let name = name.to_ascii_lowercase();
            Error::err(format!(
                "CONFIG SET failed (possibly related to argument '{name}') - argument couldn't be parsed"
            ))
        });
    }
    let inert = config.inert.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let unknown = || Error::err(format!("Unknown option or number of arguments for CONFIG SET - '{name}'"));
    inert.map(|(_, kept)| *kept = value.to_string()).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("100", Some(100)),
            ("1k", Some(1000)),
            ("2KB", Some(2048)),
            ("1gb", Some(1 << 30)),
            ("x", None),
            ("1x", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn every_value_read_can_be_set_again() {
        let (mut config, mut keyspace) = (Config::default(), Keyspace::new(1));
        for (name, value) in all(&config.clone(), &keyspace) {
            set(&mut config, &mut keyspace, name, &value).unwrap();
        }
        assert!(set(&mut config, &mut keyspace, "maxmemory", "lots").is_err());
        assert!(set(&mut config, &mut keyspace, "no-such-setting", "1").is_err());
    }
}
