//! One row of the command table: what dispatch, COMMAND and its subcommands need to know of a command.

use super::context::Context;
pub use super::key_spec::{Find, Keys, Use};
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
        /// May do without the keys that it has.
        const NO_MANDATORY_KEYS = 1 << 21;
        /// Not shown to MONITOR as such.
        const SKIP_MONITOR = 1 << 22;
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
    Cluster,
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
            Group::Cluster => "cluster",
            Group::Server => "server",
            Group::Table => "table",
        }
    }
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
    /// Its ACL categories beside those that follow from the flags, when they are not just that of its family.
    pub categories: Option<&'static [&'static str]>,
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
        Spec {
            name,
            run,
            arity,
            flags,
            keys,
            group,
            since,
            complexity,
            summary,
            usage,
            subcommands: &[],
            categories: None,
        }
    }

    /// The same row with subcommands.
    pub const fn with(mut self, subcommands: &'static [Spec]) -> Spec {
        self.subcommands = subcommands;
        self
    }

    /// A row that only holds its subcommands together: it may do nothing, and belongs nowhere.
    pub const fn holding(mut self, subcommands: &'static [Spec]) -> Spec {
        self.flags = Flags::empty();
        self.categories = Some(&[]);
        self.with(subcommands)
    }

    /// The same row in these ACL categories.
    pub const fn in_categories(mut self, categories: &'static [&'static str]) -> Spec {
        self.categories = Some(categories);
        self
    }

    /// True when a request of `count` arguments (name included) has a fitting length.
    #[inline]
    pub fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 { count == self.arity as usize } else { count >= self.arity.unsigned_abs() as usize }
    }
}
