//! One row of the command table: what dispatch, COMMAND and its subcommands need to know of a command.

use super::context::Context;
use crate::error::Result;
use crate::reply::Reply;
use bitflags::bitflags;

/// The function behind a command. `args[0]` is the command's name as typed.
pub type Run = fn(&mut Context<'_>, &[&[u8]]) -> Result<Reply>;

bitflags! {
    /// What a command may do; names and meaning as in Redis's COMMAND reply.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// May change keys or tables.
        const WRITE = 1;
        /// Reads keys or tables, changes nothing.
        const READONLY = 1 << 1;
        /// May need memory, so it is refused when the limit is reached.
        const DENYOOM = 1 << 2;
        /// For administrators.
        const ADMIN = 1 << 3;
        /// Publishes or subscribes.
        const PUBSUB = 1 << 4;
        /// Not allowed in scripts.
        const NOSCRIPT = 1 << 5;
        /// May wait.
        const BLOCKING = 1 << 6;
        /// Allowed while data is being loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica that lost its master.
        const STALE = 1 << 8;
        /// Not shown in the slow log.
        const SKIP_SLOWLOG = 1 << 9;
        /// Takes constant or logarithmic time.
        const FAST = 1 << 10;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 11;
        /// Not queued between MULTI and EXEC, and refused there.
        const NO_MULTI = 1 << 12;
        /// Runs at once between MULTI and EXEC instead of being queued.
        const MULTI_CONTROL = 1 << 13;
        /// Answered without the baton's state while a script overruns.
        const ALLOW_BUSY = 1 << 14;
        /// Allowed to a RESP2 client in subscribed mode.
        const SUBSCRIBED = 1 << 15;
        /// Key positions cannot be told by a range alone.
        const MOVABLE_KEYS = 1 << 16;
        /// May return in random order, or random values.
        const RANDOM = 1 << 17;
        /// Touches arbitrary keys.
        const TOUCHES_ARBITRARY_KEYS = 1 << 18;
        /// May be replicated though it is not a write.
        const MAY_REPLICATE = 1 << 19;
        /// Works on SQL tables.
        const SQL = 1 << 20;
    }
}

/// The family of a command, as COMMAND DOCS names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it all
pub enum Group {
    String,
    Bitmap,
    Hash,
    List,
    Set,
    SortedSet,
    Generic,
    Transactions,
    PubSub,
    Scripting,
    Connection,
    Server,
    Table,
}

impl Group {
    /// The family's name in COMMAND DOCS.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Generic => "generic",
            Group::Transactions => "transactions",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Table => "table",
        }
    }
}

/// Where a command's keys stand among its arguments.
#[derive(Clone, Copy)]
pub enum Keys {
    /// It has none.
    None,
    /// From `first` to `last` (negative counts from the end), every `step`.
    Range {
        /// Position of the first key.
        first: i32,
        /// Position of the last key; -1 is the last argument.
        last: i32,
        /// Distance between keys.
        step: i32,
    },
    /// A function finds them; the range is what COMMAND INFO shows.
    Found {
        /// What COMMAND INFO shows: first, last, step.
        shown: (i32, i32, i32),
        /// Positions of the keys, or None when the arguments make no sense.
        find: fn(&[&[u8]]) -> Option<Vec<usize>>,
    },
}

impl Keys {
    /// One key, right after the name.
    pub const ONE: Keys = Keys::Range { first: 1, last: 1, step: 1 };
    /// Two keys, right after the name.
    pub const TWO: Keys = Keys::Range { first: 1, last: 2, step: 1 };
    /// Every argument is a key.
    pub const ALL: Keys = Keys::Range { first: 1, last: -1, step: 1 };
    /// Keys and values in turn.
    pub const PAIRS: Keys = Keys::Range { first: 1, last: -1, step: 2 };
    /// Every argument but the last, a timeout, is a key.
    pub const ALL_BUT_TIMEOUT: Keys = Keys::Range { first: 1, last: -2, step: 1 };
    /// `NAME numkeys key ...`
    pub const NUMKEYS_FIRST: Keys = Keys::Found { shown: (0, 0, 0), find: |args| counted_keys(args, 1, &[]) };
    /// `NAME x numkeys key ...`
    pub const NUMKEYS_SECOND: Keys = Keys::Found { shown: (0, 0, 0), find: |args| counted_keys(args, 2, &[]) };
    /// `NAME destination numkeys key ...`
    pub const STORE_NUMKEYS: Keys = Keys::Found { shown: (1, 1, 1), find: |args| counted_keys(args, 2, &[1]) };
}

/// Positions of the keys counted by the argument at `at`, after those in `before`.
pub fn counted_keys(args: &[&[u8]], at: usize, before: &[usize]) -> Option<Vec<usize>> {
    let count: usize = std::str::from_utf8(args.get(at)?).ok()?.parse().ok()?;
    if count > args.len() - at - 1 {
        return None;
    }
    Some(before.iter().copied().chain(at + 1..at + 1 + count).collect())
}

/// A command or subcommand.
pub struct Spec {
    /// Lower-case name; subcommands carry their container's name (`client|list`).
    pub name: &'static str,
    /// What runs it.
    pub run: Run,
    /// Number of arguments with the name; negative means at least that many.
    pub arity: i32,
    /// What it may do.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: Keys,
    /// Its family.
    pub group: Group,
    /// The Redis version that brought it, or "peryton".
    pub since: &'static str,
    /// Its cost.
    pub complexity: &'static str,
    /// One sentence on what it does.
    pub summary: &'static str,
    /// Its arguments in the notation of manual pages, for the reference and the shell.
    pub usage: &'static str,
    /// Subcommands, when it is a container.
    pub subcommands: &'static [Spec],
}

impl Spec {
    /// A row without subcommands, for the families' tables: what it is, then what is known of it.
    #[allow(clippy::too_many_arguments)] // a table's row
    pub const fn row(
        group: Group,
        name: &'static str,
        run: Run,
        arity: i32,
        flags: Flags,
        keys: Keys,
        since: &'static str,
        complexity: &'static str,
        usage: &'static str,
        summary: &'static str,
    ) -> Spec {
        Spec { name, run, arity, flags, keys, group, since, complexity, summary, usage, subcommands: &[] }
    }

    /// The same row with subcommands.
    pub const fn with(mut self, subcommands: &'static [Spec]) -> Spec {
        self.subcommands = subcommands;
        self
    }

    /// True when a request of `count` arguments (name included) has a fitting length.
    #[inline]
    pub fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 { count == self.arity as usize } else { count >= self.arity.unsigned_abs() as usize }
    }

    /// Positions of the keys of a request, or None when its arguments make no sense.
    pub fn key_positions(&self, args: &[&[u8]]) -> Option<Vec<usize>> {
        match self.keys {
            Keys::None => Some(Vec::new()),
            Keys::Found { find, .. } => find(args),
            Keys::Range { first, last, step } => {
                let last = if last < 0 { args.len() as i32 + last } else { last };
                let positions = (first..=last).step_by(step as usize).map(|p| p as usize);
                Some(positions.filter(|&p| p < args.len()).collect())
            }
        }
    }
}
