//! Plain SQLite beside our tables: the same statements on the same random data give the same rows.
