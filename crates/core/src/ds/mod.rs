//! Plain data structures that know nothing of the server.
