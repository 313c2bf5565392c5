//! Settings of a store, under Redis's names where the meaning is the same; CONFIG GET and SET read this table.

use crate::ds::number;
use crate::error::{Error, Result};
use crate::keyspace::evict::{POLICIES, Policy};
use crate::keyspace::{EventClass, Keyspace};
use crate::limits;
use crate::session::Durability;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Settings that have no better home. Those of the keyspace live there.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most bytes of memory; 0 is no limit.
    pub maxmemory: u64,
    /// What to evict at the limit.
    pub maxmemory_policy: Policy,
    /// How many keys are looked at before one is evicted.
    pub maxmemory_samples: usize,
    /// How long a request may be held up by evicting, from 0 (not at all) to 100 (for as long as it takes).
    pub maxmemory_eviction_tenacity: u32,
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
    /// How long a call of a procedure outside of the store may take, milliseconds; 0: as long as a statement.
    pub python_time_limit_ms: u64,
    /// How long a transaction of BEGIN may wait for its session's next command, milliseconds; 0: for ever.
    pub transaction_idle_timeout_ms: i64,
    /// Bytes that may be copied because a transaction holds on to the tables as they were when it began.
    pub view_bytes: u64,
    /// How long a read may hold the store before it goes on in another thread, microseconds.
    pub statement_slice_us: u64,
    /// What replies promise to sessions that chose nothing else.
    pub durability: Durability,
    /// The store has a log.
    pub has_log: bool,
    /// Bytes of log after which a checkpoint is made; 0: never for its size.
    pub checkpoint_log_bytes: u64,
    /// Seconds after which a checkpoint is made if anything has changed; 0: never for its age.
    pub checkpoint_seconds: u64,
    /// How long a procedure may run, milliseconds; 0: as long as it takes.
    pub procedure_time_limit_ms: u64,
    /// Most bytes that an interpreter of procedures may hold.
    pub procedure_memory_bytes: usize,
    /// Most bytes by which one call may make it grow; 0: up to the limit.
    pub procedure_growth_bytes: usize,
    /// Most commands and statements that one call of a procedure may give; 0: any number.
    pub procedure_call_limit: u64,
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

impl Config {
    /// What is wrong with promising this.
    pub fn check_durability(&self, durability: Durability) -> std::result::Result<(), &'static str> {
        match durability {
            Durability::None => Ok(()),
            _ if self.has_log => Ok(()),
            _ => Err("this store has no log: open it with a directory, and with durability sync or interval"),
        }
    }

    fn promise(&mut self, durability: Durability) -> Checked<()> {
        self.check_durability(durability)?;
        self.durability = durability;
        Ok(())
    }
}

/// Redis's names of the promises.
const APPENDFSYNC: [(&str, Durability); 3] =
    [("always", Durability::Sync), ("everysec", Durability::Interval), ("no", Durability::None)];

impl Default for Config {
    fn default() -> Self {
        Config {
            maxmemory: 0,
            maxmemory_policy: Policy::NoEviction,
            maxmemory_samples: 5,
            maxmemory_eviction_tenacity: 10,
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
            python_time_limit_ms: 10_000,
            transaction_idle_timeout_ms: 60_000,
            view_bytes: limits::VIEW_BYTES_MAX,
            statement_slice_us: limits::READ_SLICE_US,
            durability: Durability::None,
            has_log: false,
            checkpoint_log_bytes: 512 << 20,
            checkpoint_seconds: 3600,
            procedure_time_limit_ms: 0,
            procedure_memory_bytes: limits::SCRIPT_MEMORY_BYTES_MAX,
            procedure_growth_bytes: 0,
            procedure_call_limit: 0,
            inert: INERT.iter().map(|(name, value, _)| (*name, value.to_string())).collect(),
        }
    }
}

/// Settings that clients and test suites read or set, which change nothing here.
const INERT: [(&str, &str, Check); 11] = [
    ("save", "", Check::None),
    ("databases", "16", Check::Immutable),
    ("tcp-keepalive", "300", Check::Integer(0..=I32_MAX)),
    ("hz", "10", Check::Integer(0..=I32_MAX)),
    ("dynamic-hz", "yes", Check::YesOrNo),
    ("lazyfree-lazy-eviction", "yes", Check::YesOrNo),
    ("lazyfree-lazy-expire", "yes", Check::YesOrNo),
    ("lazyfree-lazy-server-del", "yes", Check::YesOrNo),
    ("lazyfree-lazy-user-del", "yes", Check::YesOrNo),
    ("activedefrag", "no", Check::YesOrNo),
    ("proto-max-bulk-len", "536870912", Check::Fixed(limits::BULK_BYTES_MAX as i64)),
];

const I32_MAX: i64 = i32::MAX as i64;

/// What a setting that changes nothing may be set to.
enum Check {
    None,
    Immutable,
    YesOrNo,
    Integer(RangeInclusive<i64>),
    /// Bytes that are always as many.
    Fixed(i64),
}

impl Check {
    /// The value as CONFIG GET shows it.
    fn canonical(&self, text: &str) -> Checked<String> {
        Ok(match self {
            Check::None => text.to_string(),
            Check::Immutable => return Err("can't set immutable config".into()),
            Check::YesOrNo if ["yes", "no"].iter().any(|word| word.eq_ignore_ascii_case(text)) => {
                text.to_ascii_lowercase()
            }
            Check::YesOrNo => return Err("argument must be 'yes' or 'no'".into()),
            Check::Integer(bounds) => integer::<i64>(text, bounds.clone())?.to_string(),
            Check::Fixed(value) if bytes(text)? == *value => value.to_string(),
            Check::Fixed(value) => return Err(format!("the limit is fixed at {value} bytes").into()),
        })
    }
}

/// A value, or what is wrong with its text, in Redis's words.
type Checked<T> = std::result::Result<T, Cow<'static, str>>;

/// Where a setting is read and written.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    get: fn(&Config, &Keyspace) -> String,
    set: fn(&mut Config, &mut Keyspace, &str) -> Checked<()>,
}

fn integer<T: TryFrom<i64>>(text: &str, bounds: RangeInclusive<i64>) -> Checked<T> {
    let value = number::parse_i64(text.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
    T::try_from(within(value, bounds)?).map_err(|_| "argument is too large".into())
}

fn within(value: i64, bounds: RangeInclusive<i64>) -> Checked<i64> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (min, max) = bounds.into_inner();
    Err(format!("argument must be between {min} and {max} inclusive").into())
}

/// Bytes with Redis's units: `1k` is 1000, `1kb` 1024, and so on.
fn bytes(text: &str) -> Checked<i64> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "b" => Some(1),
        "k" => Some(1000),
        "kb" => Some(1 << 10),
        "m" => Some(1_000_000),
        "mb" => Some(1 << 20),
        "g" => Some(1_000_000_000),
        "gb" => Some(1 << 30),
        _ => None,
    };
    let number = text[..digits].parse::<i64>().ok().zip(unit);
    number.and_then(|(number, unit)| number.checked_mul(unit)).ok_or("argument must be a memory value".into())
}

fn size(text: &str, bounds: RangeInclusive<i64>) -> Checked<usize> {
    Ok(within(bytes(text)?, bounds)? as usize)
}

fn one_of(text: &str, words: &[&'static str]) -> Checked<&'static str> {
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")).into())
}

fn policy(text: &str) -> Checked<Policy> {
    let name = one_of(text, &POLICIES.map(|(name, _)| name))?;
    Ok(POLICIES.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy).unwrap_or_default())
}

/// A threshold that is a number of elements, or of bytes.
macro_rules! threshold {
    ($name:literal, $field:ident, $read:ident, $bounds:expr) => {
        Parameter {
            name: $name,
            get: |_, k| k.shared.thresholds.$field.to_string(),
            set: |_, k, v| $read(v, $bounds).map(|n| k.shared.thresholds.$field = n),
        }
    };
}

/// Every setting that does something.
pub static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "maxmemory",
        get: |c, _| c.maxmemory.to_string(),
        set: |c, _, v| bytes(v).map(|n| c.maxmemory = n as u64),
    },
    Parameter {
        name: "maxmemory-policy",
        get: |c, _| c.maxmemory_policy.name().into(),
        set: |c, _, v| policy(v).map(|policy| c.maxmemory_policy = policy),
    },
    Parameter {
        name: "maxmemory-samples",
        get: |c, _| c.maxmemory_samples.to_string(),
        set: |c, _, v| integer(v, 1..=I32_MAX).map(|n| c.maxmemory_samples = n),
    },
    Parameter {
        name: "maxmemory-eviction-tenacity",
        get: |c, _| c.maxmemory_eviction_tenacity.to_string(),
        set: |c, _, v| integer(v, 0..=100).map(|n| c.maxmemory_eviction_tenacity = n),
    },
    Parameter {
        name: "lfu-log-factor",
        get: |_, k| k.shared.clock.log_factor.to_string(),
        set: |_, k, v| integer(v, 0..=I32_MAX).map(|n| k.shared.clock.log_factor = n),
    },
    Parameter {
        name: "lfu-decay-time",
        get: |_, k| k.shared.clock.decay_minutes.to_string(),
        set: |_, k, v| integer(v, 0..=I32_MAX).map(|n| k.shared.clock.decay_minutes = n),
    },
    Parameter {
        name: "slowlog-log-slower-than",
        get: |c, _| c.slowlog_log_slower_than_us.to_string(),
        set: |c, _, v| integer(v, -1..=i64::MAX).map(|n| c.slowlog_log_slower_than_us = n),
    },
    Parameter {
        name: "slowlog-max-len",
        get: |c, _| c.slowlog_max_len.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.slowlog_max_len = n),
    },
    Parameter {
        name: "busy-reply-threshold",
        get: |c, _| c.busy_reply_threshold_ms.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.busy_reply_threshold_ms = n),
    },
    Parameter {
        name: "lua-time-limit",
        get: |c, _| c.busy_reply_threshold_ms.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.busy_reply_threshold_ms = n),
    },
    Parameter {
        name: "requirepass",
        get: |c, _| c.requirepass.clone(),
        set: |c, _, v| {
            c.requirepass = v.to_string();
            Ok(())
        },
    },
    Parameter {
        name: "notify-keyspace-events",
        get: |c, _| c.notify.letters(),
        set: |c, _, v| {
            let wrong = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            c.notify = EventClass::from_letters(v).ok_or(wrong)?;
            Ok(())
        },
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
        set: |c, _, v| integer(v, 0..=I32_MAX).map(|n| c.timeout_s = n),
    },
    Parameter {
        name: "maxclients",
        get: |c, _| c.maxclients.to_string(),
        set: |c, _, v| integer(v, 1..=u32::MAX as i64).map(|n| c.maxclients = n),
    },
    Parameter {
        name: "statement-timeout",
        get: |c, _| c.statement_timeout_ms.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.statement_timeout_ms = n),
    },
    Parameter {
        name: "python-time-limit",
        get: |c, _| c.python_time_limit_ms.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.python_time_limit_ms = n),
    },
    Parameter {
        name: "transaction-idle-timeout",
        get: |c, _| c.transaction_idle_timeout_ms.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.transaction_idle_timeout_ms = n),
    },
    Parameter {
        name: "view-bytes",
        get: |c, _| c.view_bytes.to_string(),
        set: |c, _, v| within(bytes(v)?, 1 << 20..=i64::MAX).map(|n| c.view_bytes = n as u64),
    },
    Parameter {
        name: "statement-slice",
        get: |c, _| c.statement_slice_us.to_string(),
        set: |c, _, v| integer(v, 0..=60_000_000).map(|n| c.statement_slice_us = n),
    },
    Parameter {
        name: "durability",
        get: |c, _| c.durability.name().into(),
        set: |c, _, v| {
            let known = Durability::parse(v.as_bytes());
            c.promise(known.ok_or("argument must be one of the following: sync, interval, none")?)
        },
    },
    Parameter {
        name: "appendfsync",
        get: |c, _| APPENDFSYNC.iter().find(|(_, one)| *one == c.durability).map_or("no", |(name, _)| name).into(),
        set: |c, _, v| {
            let name = one_of(v, &["everysec", "always", "no"])?;
            let known = APPENDFSYNC.iter().find(|(known, _)| *known == name);
            // A store without a log has always taken any of them; what it does not promise INFO tells.
            if c.has_log { known.map_or(Ok(()), |(_, durability)| c.promise(*durability)) } else { Ok(()) }
        },
    },
    Parameter {
        name: "appendonly",
        get: |c, _| if c.has_log { "yes" } else { "no" }.into(),
        set: |c, _, v| match one_of(v, &["yes", "no"])? {
            "yes" if !c.has_log => Err("the store was opened without a log: serve it with a directory (--dir)".into()),
            "no" if c.has_log => Err("the log cannot be ended while the store is open; see DURABILITY".into()),
            _ => Ok(()),
        },
    },
    Parameter {
        name: "checkpoint-log-bytes",
        get: |c, _| c.checkpoint_log_bytes.to_string(),
        set: |c, _, v| bytes(v).map(|n| c.checkpoint_log_bytes = n as u64),
    },
    Parameter {
        name: "checkpoint-seconds",
        get: |c, _| c.checkpoint_seconds.to_string(),
        set: |c, _, v| integer(v, 0..=I32_MAX).map(|n| c.checkpoint_seconds = n),
    },
    Parameter {
        name: "procedure-time-limit",
        get: |c, _| c.procedure_time_limit_ms.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX / 1_000_000).map(|n| c.procedure_time_limit_ms = n),
    },
    Parameter {
        name: "procedure-memory-limit",
        get: |c, _| c.procedure_memory_bytes.to_string(),
        set: |c, _, v| size(v, 1 << 20..=limits::PROCEDURE_MEMORY_BYTES_MAX).map(|n| c.procedure_memory_bytes = n),
    },
    Parameter {
        name: "procedure-memory-growth",
        get: |c, _| c.procedure_growth_bytes.to_string(),
        set: |c, _, v| size(v, 0..=i64::MAX).map(|n| c.procedure_growth_bytes = n),
    },
    Parameter {
        name: "procedure-call-limit",
        get: |c, _| c.procedure_call_limit.to_string(),
        set: |c, _, v| integer(v, 0..=i64::MAX).map(|n| c.procedure_call_limit = n),
    },
    threshold!("hash-max-listpack-entries", hash_entries, integer, 0..=i64::MAX),
    threshold!("hash-max-ziplist-entries", hash_entries, integer, 0..=i64::MAX),
    threshold!("hash-max-listpack-value", hash_value, size, 0..=i64::MAX),
    threshold!("hash-max-ziplist-value", hash_value, size, 0..=i64::MAX),
    threshold!("set-max-intset-entries", set_integers, integer, 0..=i64::MAX),
    threshold!("zset-max-listpack-entries", zset_entries, integer, 0..=i64::MAX),
    threshold!("zset-max-ziplist-entries", zset_entries, integer, 0..=i64::MAX),
    threshold!("zset-max-listpack-value", zset_value, size, 0..=i64::MAX),
    threshold!("zset-max-ziplist-value", zset_value, size, 0..=i64::MAX),
    threshold!("list-max-listpack-size", list_node, integer, i32::MIN as i64..=I32_MAX),
    threshold!("list-max-ziplist-size", list_node, integer, i32::MIN as i64..=I32_MAX),
];

/// `normal 0 0 0 pubsub 32mb 8mb 60`: any number of groups of four words.
fn set_output_limits(config: &mut Config, text: &str) -> Checked<()> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for group in words.chunks(4) {
        let wrong = |_| "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let limit = OutputLimit {
            hard_bytes: bytes(group[1]).map_err(wrong)? as u64,
            soft_bytes: bytes(group[2]).map_err(wrong)? as u64,
            soft_seconds: integer(group[3], 0..=i64::MAX).map_err(wrong)?,
        };
        match group[0] {
            "normal" => config.output_buffer_normal = limit,
            "pubsub" => config.output_buffer_pubsub = limit,
            "slave" | "replica" => {}
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        }
    }
    Ok(())
}

/// All settings and their values, by name.
pub fn all(config: &Config, keyspace: &Keyspace) -> Vec<(&'static str, String)> {
    let known = PARAMETERS.iter().map(|p| (p.name, (p.get)(config, keyspace)));
    known.chain(config.inert.iter().map(|(name, value)| (*name, value.clone()))).collect()
}

/// Sets one setting; the error is what CONFIG SET says of it.
pub fn set(config: &mut Config, keyspace: &mut Keyspace, name: &str, value: &str) -> Result<()> {
    let failed = |name: &str, why: Cow<'static, str>| {
        Error::err(format!("CONFIG SET failed (possibly related to argument '{name}') - {why}"))
    };
    if let Some(parameter) = PARAMETERS.iter().find(|p| p.name.eq_ignore_ascii_case(name)) {
        return (parameter.set)(config, keyspace, value).map_err(|why| failed(parameter.name, why));
    }
    let Some(at) = INERT.iter().position(|(known, ..)| known.eq_ignore_ascii_case(name)) else {
        return Err(Error::err(format!("Unknown option or number of arguments for CONFIG SET - '{name}'")));
    };
    let (name, _, check) = &INERT[at];
    config.inert[at].1 = check.canonical(value).map_err(|why| failed(name, why))?;
    Ok(())
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
            assert_eq!(expected, bytes(text).ok(), "{text}");
        }
    }

    #[test]
    fn every_value_read_can_be_set_again() {
        let (mut config, mut keyspace) = (Config::default(), Keyspace::new(1));
        for (name, value) in all(&config.clone(), &keyspace) {
            let result = set(&mut config, &mut keyspace, name, &value);
            assert!(result.is_ok() || name == "databases", "{name}");
        }
        assert!(set(&mut config, &mut keyspace, "maxmemory", "lots").is_err());
        assert!(set(&mut config, &mut keyspace, "no-such-setting", "1").is_err());
    }
}
