//! The network doors of Peryton: RESP bytes to requests and replies, connections, the listener.
