//! The one error type that leaves the engine: a stable code, which clients match on, and a sentence for people.

use std::borrow::Cow;
use std::fmt;

/// Shorthand for results that fail with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The first word of an error reply. Redis clients map these to exception classes, so existing words are never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A mistake in the request, or anything without a word of its own.
    Err,
    /// The key holds a value of another type.
    WrongType,
    /// EVALSHA of a script that the store does not know.
    NoScript,
    /// A script or procedure has run past its soft limit; only its killing is served.
    Busy,
    /// What the store keeps is still being read.
    Loading,
    /// The killed script has written already, so it may only be ended with the store.
    Unkillable,
    /// No script is running.
    NotBusy,
    /// The session must authenticate first.
    NoAuth,
    /// Wrong user name or password.
    WrongPass,
    /// HELLO asked for a protocol that does not exist.
    NoProto,
    /// The session may not do this.
    NoPerm,
    /// EXEC of a transaction in which a command was refused when queued.
    ExecAbort,
    /// The memory limit is reached.
    Oom,
    /// COPY or RESTORE onto an existing key.
    BusyKey,
    /// BLPOP's and its kin's client was unblocked by another.
    Unblocked,
    /// A read-only script or session tried to write.
    ReadOnly,
    /// A transaction lost against another one; running it again may succeed.
    Conflict,
    /// A statement would break UNIQUE, NOT NULL, CHECK or a foreign key.
    Constraint,
    /// SQL text that does not parse, or names what does not exist.
    Sql,
    /// A limit in `limits.rs` was reached.
    Limit,
    /// The storage engine failed.
    Engine,
    /// The store refuses writes until it is reopened (after a failed sync) or has space again (a full disk).
    MisConf,
    /// The operation was interrupted: cancelled, killed or out of time.
    Cancelled,
    /// A bug in Peryton, caught at a border; the message names the place.
    Bug,
    /// An error made by a script; the message begins with the code word that the script chose.
    Custom,
}

impl Code {
    /// The word as it stands at the front of an error reply.
    pub fn word(self) -> &'static str {
        match self {
            Code::Err => "ERR",
            Code::WrongType => "WRONGTYPE",
            Code::NoScript => "NOSCRIPT",
            Code::Busy => "BUSY",
            Code::Loading => "LOADING",
            Code::Unkillable => "UNKILLABLE",
            Code::NotBusy => "NOTBUSY",
            Code::NoAuth => "NOAUTH",
            Code::WrongPass => "WRONGPASS",
            Code::NoProto => "NOPROTO",
            Code::NoPerm => "NOPERM",
            Code::ExecAbort => "EXECABORT",
            Code::Oom => "OOM",
            Code::BusyKey => "BUSYKEY",
            Code::Unblocked => "UNBLOCKED",
            Code::ReadOnly => "READONLY",
            Code::Conflict => "CONFLICT",
            Code::Constraint => "CONSTRAINT",
            Code::Sql => "SQL",
            Code::Limit => "LIMIT",
            Code::Engine => "ENGINE",
            Code::MisConf => "MISCONF",
            Code::Cancelled => "CANCELLED",
            Code::Bug => "BUG",
            Code::Custom => "",
        }
    }
}

/// A failed request: what, where and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure this is; stable.
    pub code: Code,
    /// The sentence after the code. May carry a code word of its own when a script made the error.
    pub message: Cow<'static, str>,
    /// The sentence as it goes over the wire, where it quotes bytes of a request that are not UTF-8.
    bytes: Option<Box<[u8]>>,
}

impl Error {
    /// An error with a code and a sentence.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Error { code, message: message.into(), bytes: None }
    }

    /// An error whose sentence quotes bytes of a request as they came.
    pub fn quoting(code: Code, bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(message) => Error::new(code, message),
            Err(not_text) => {
                let bytes = not_text.into_bytes();
                let message = String::from_utf8_lossy(&bytes).into_owned();
                Error { code, message: message.into(), bytes: Some(bytes.into()) }
            }
        }
    }

    /// An error that quotes an argument as C would print it: up to a zero; line breaks at the end are cut, as Redis does.
    pub fn about(before: &str, argument: &[u8], after: &str) -> Self {
        let argument = argument.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut text = [before.as_bytes(), argument, after.as_bytes()].concat();
        while text.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            text.pop();
        }
        Self::quoting(Code::Err, text)
    }

    /// The sentence as it goes over the wire.
    pub fn message_bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.message.as_bytes())
    }

    /// A plain `ERR` error.
    pub fn err(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Code::Err, message)
    }

    /// "Operation against a key holding the wrong kind of value" (Redis 7's text).
    pub fn wrong_type() -> Self {
        Error::new(Code::WrongType, "Operation against a key holding the wrong kind of value")
    }

    /// "value is not an integer or out of range" (Redis 7's text).
    pub fn not_an_integer() -> Self {
        Error::err("value is not an integer or out of range")
    }

    /// "value is not a valid float" (Redis 7's text).
    pub fn not_a_float() -> Self {
        Error::err("value is not a valid float")
    }

    /// "syntax error" (Redis 7's text).
    pub fn syntax() -> Self {
        Error::err("syntax error")
    }

    /// "index out of range" (Redis 7's text).
    pub fn out_of_range() -> Self {
        Error::err("index out of range")
    }

    /// "no such key" (Redis 7's text).
    pub fn no_such_key() -> Self {
        Error::err("no such key")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Code::Custom => f.write_str(&self.message),
            code => write!(f, "{} {}", code.word(), self.message),
        }
    }
}

impl std::error::Error for Error {}
