//! Redis values: one file per type with its API, its encodings and its operations; no keys, no replies.
