//! What the store remembers of one client between its requests.

pub use crate::keyspace::waiting::SessionId;
pub use crate::wal::Durability;

use crate::reply::Reply;
use crate::txn::Transaction;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Called, from any thread, when a session's outbox has something for a door that may be asleep.
pub trait Waker: Send + Sync {
    /// Makes the session's door look at the outbox soon. Must not wait and must not enter the store.
    fn wake(&self);
}

/// A waker for doors that never sleep.
pub struct NoWaker;

impl Waker for NoWaker {
    fn wake(&self) {}
}

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The Redis protocol over a socket.
    Resp,
    /// A call from the same process.
    Embedded,
}

/// What CLIENT REPLY asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every request is answered.
    On,
    /// Nothing is answered until CLIENT REPLY ON.
    Off,
    /// The next request is not answered.
    SkipNext,
    /// This request is not answered.
    Skip,
}

/// A transaction being queued between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Multi {
    /// The queued requests.
    pub queue: Vec<OwnedRequest>,
    /// True when a request was refused while queueing, so EXEC must fail.
    pub aborted: bool,
    /// Bytes held by the queue.
    pub bytes: usize,
    /// True when a queued command is refused for want of memory, and EXEC therefore too.
    pub denyoom: bool,
    /// True when a queued command writes.
    pub writes: bool,
}

/// A request kept for later.
pub type OwnedRequest = Vec<Box<[u8]>>;

/// Work done for a session in another thread, which ends when the session no longer waits for it.
pub trait Elsewhere: Send + Sync {
    /// Has it end soon.
    fn cancel(&self);
}

/// A session waiting inside a blocking command, or for a long read.
pub struct Blocked {
    /// The request, run again when one of its keys is ready.
    pub request: OwnedRequest,
    /// Keys waited for, in the session's database.
    pub keys: Vec<Box<[u8]>>,
    /// When to give up, milliseconds since 1970; None waits for ever.
    pub deadline_ms: Option<i64>,
    /// The answer when time is up.
    pub on_timeout: Reply,
    /// What is done for it in another thread.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
    /// It waits for its own next slice: when time is up, the request goes on from here.
    pub sweep: Option<Sweep>,
}

/// How far a request has come that is served in slices, with others in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// The cursor of SCAN from which to go on.
    pub cursor: u64,
    /// Keys deleted so far.
    pub deleted: u64,
}

/// The state of one client.
pub struct Session {
    /// The session's number.
    pub id: SessionId,
    /// How it came in.
    pub door: Door,
    /// The database chosen with SELECT.
    pub db: usize,
    /// RESP version of its replies, 2 or 3.
    pub protocol: u8,
    /// Whether it may run commands beyond AUTH, HELLO, QUIT and RESET.
    pub authenticated: bool,
    /// The name given with CLIENT SETNAME.
    pub name: Vec<u8>,
    /// The library's name and version given with CLIENT SETINFO.
    pub library: (Vec<u8>, Vec<u8>),
    /// Remote and local address as shown by CLIENT LIST; empty for embedded sessions.
    pub address: (String, String),
    /// When it came, milliseconds since 1970.
    pub created_ms: i64,
    /// Its last request, milliseconds since 1970.
    pub active_ms: i64,
    /// Name of the last command, lower case; `NULL` before the first (as Redis shows it).
    pub last_command: &'static str,
    /// What CLIENT REPLY asked for.
    pub reply_mode: ReplyMode,
    /// The transaction being queued.
    pub multi: Option<Multi>,
    /// What its replies promise, if it chose (DURABILITY); None: what the store does.
    pub durability: Option<Durability>,
    /// What the reply to the request just served promises, if that chose (BEGIN DURABILITY).
    pub promise: Option<Durability>,
    /// It is that of a running procedure, whose transaction nobody else ends.
    pub in_procedure: bool,
    /// The transaction that BEGIN opened.
    pub transaction: Option<Box<Transaction>>,
    /// Watched keys with the version each had.
    pub watched: HashMap<(usize, Box<[u8]>), u64>,
    /// Subscribed channels.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Subscribed patterns.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Subscribed shard channels.
    pub shard_channels: BTreeSet<Box<[u8]>>,
    /// Set while it waits in a blocking command.
    pub blocked: Option<Blocked>,
    /// Where the request that runs goes on, when it is served in slices.
    pub sweep: Option<Sweep>,
    /// Replies and pushes that its door has yet to take.
    pub outbox: Vec<Reply>,
    /// Bytes in the outbox since its door last emptied it.
    pub outbox_bytes: usize,
    /// Close after what is in the outbox is sent (QUIT, CLIENT KILL on oneself).
    pub closing: bool,
    /// Close at once (CLIENT KILL by another).
    pub killed: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Sizes reported by the door for CLIENT LIST: query buffer and unsent output, bytes.
    pub buffers: (usize, usize),
    waker: Arc<dyn Waker>,
}

impl Session {
    /// A new session in database 0 speaking RESP2.
    pub fn new(id: SessionId, door: Door, now_ms: i64, waker: Arc<dyn Waker>) -> Self {
        Session {
            id,
            door,
            db: 0,
            protocol: 2,
            authenticated: false,
            name: Vec::new(),
            library: (Vec::new(), Vec::new()),
            address: (String::new(), String::new()),
            created_ms: now_ms,
            active_ms: now_ms,
            last_command: "NULL",
            reply_mode: ReplyMode::On,
            multi: None,
            durability: None,
            promise: None,
            in_procedure: false,
            transaction: None,
            watched: HashMap::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            blocked: None,
            sweep: None,
            outbox: Vec::new(),
            outbox_bytes: 0,
            closing: false,
            killed: false,
            no_evict: false,
            no_touch: false,
            buffers: (0, 0),
            waker,
        }
    }

    /// Puts a reply or push into the outbox and wakes the door.
    pub fn post(&mut self, reply: Reply) {
        if self.outbox.is_empty() {
            self.outbox_bytes = 0;
        }
        self.outbox_bytes += reply.bytes();
        self.outbox.push(reply);
        self.waker.wake();
    }

    /// Wakes the door without a message (the session was killed, say).
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Channels, patterns and shard channels together, as the replies of SUBSCRIBE count them (shard channels apart).
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// True when a RESP2 client may only use the commands of the subscribed mode.
    pub fn in_subscribed_mode(&self) -> bool {
        self.protocol == 2 && self.subscriptions() + self.shard_channels.len() > 0
    }
}
