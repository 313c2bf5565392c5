//! The network doors of Peryton: RESP bytes to requests and replies, connections, the listener.

pub mod load;
pub mod resp;

mod connection;
mod event_loop;
mod guard;
mod listener;
mod loading;
mod sockets;
mod wake;

pub use listener::{Address, Options, Server};
pub use loading::Loading;
