//! The Redis protocol without any I/O: bytes to requests, replies to bytes.

mod decode;
mod encode;

pub use decode::{Decoder, Limits, Parsed, ProtocolError};
pub use encode::encode;
