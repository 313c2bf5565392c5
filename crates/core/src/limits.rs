//! Every bound on what may come from outside or grow inside (invariant 8, principle 9), in one place.

/// Longest bulk string in a request, bytes (Redis: proto-max-bulk-len).
pub const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Most arguments in one request (Redis 7: 1024 * 1024).
pub const ARGUMENTS_MAX: usize = 1024 * 1024;
/// Longest inline request, bytes (Redis: 64 KiB).
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Longest string value, bytes (Redis: 512 MB).
pub const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Arguments and length of a request before the client has authenticated (Redis 7).
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
/// Longest bulk string before the client has authenticated, bytes (Redis 7).
pub const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;
/// Most bytes a client's query buffer may hold (Redis: client-query-buffer-limit).
pub const QUERY_BUFFER_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Numbered databases (Redis: databases 16).
pub const DATABASES: usize = 16;
/// Values larger than this are freed away from the baton, bytes.
pub const LAZY_FREE_BYTES: usize = 64 * 1024;
/// Deepest nesting of a reply built by a script.
pub const REPLY_DEPTH_MAX: usize = 128;
/// Most elements of a script's reply, those of nested tables included.
pub const SCRIPT_REPLY_ELEMENTS_MAX: usize = 8 << 20;
/// Most bytes of the strings in a script's reply.
pub const SCRIPT_REPLY_BYTES_MAX: usize = STRING_BYTES_MAX;
/// Stack of the threads that serve requests, bytes. Callers in their own threads need not have so much: what recurses
/// (statements, scripts' data, replies) is limited to what fits 512 kB, as tests show.
pub const THREAD_STACK_BYTES: usize = 8 << 20;
/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1000;
/// Most columns of an index.
pub const INDEX_COLUMNS_MAX: usize = 16;
/// Most indexes of a table.
pub const INDEXES_MAX: usize = 64;
/// Most CHECKs of a table, and as many foreign keys: each row is judged by all of them.
pub const CONSTRAINTS_MAX: usize = 1000;
/// Longest encoded index key, bytes.
pub const INDEX_KEY_BYTES_MAX: usize = 3072;
/// Longest row, bytes; longer values live out of the page.
pub const ROW_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest SQL text, bytes.
pub const SQL_BYTES_MAX: usize = 1024 * 1024;
/// Most parameters of one SQL statement (SQLite's default).
pub const SQL_PARAMETERS_MAX: usize = 32766;
/// Deepest expression of a statement. Compiling one takes 0.6 kB of the thread's stack a level: half of SQLite's default
/// fits the smallest stack we promise to run on, 512 kB, where SQLite's whole default does not.
pub const SQL_EXPRESSION_DEPTH_MAX: usize = 500;
/// Deepest stack of SQLite's parser (its default): it grows on the heap, and keeps subqueries and calls from nesting
/// deeper than what compiles them can bear.
pub const SQL_PARSER_DEPTH_MAX: usize = 2500;
/// Most SELECTs joined by UNION and the like (SQLite's default).
pub const SQL_COMPOUND_MAX: usize = 500;
/// Longest pattern of LIKE and GLOB, bytes: matching recurses once for each wildcard.
pub const SQL_PATTERN_BYTES_MAX: usize = 1000;
/// Longest value that SQL makes or reads, bytes: none longer fits into a row.
pub const SQL_VALUE_BYTES_MAX: usize = ROW_BYTES_MAX;
/// Longest statement that is kept in the cache, bytes.
pub const SQL_CACHED_BYTES_MAX: usize = 16 * 1024;
/// Largest result of one statement, bytes.
pub const SQL_RESULT_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Most memory that one statement may take of SQLite for compiling, sorting, grouping and its values, bytes.
pub const SQL_MEMORY_BYTES_MAX: usize = SQL_RESULT_BYTES_MAX;
/// Most memory that a hash table of a join may take, bytes; past it SQLite does the join, which keeps row ids only.
pub const SQL_JOIN_BYTES_MAX: usize = 64 << 20;
/// Keys that the SQL table `keys` reads at once.
pub const SQL_KEYS_BATCH: usize = 256;
/// Tables of which is kept how their rows are found by key.
pub const RECORDS_KEPT: usize = 64;
/// Cached statements per store.
pub const STATEMENTS_CACHED: usize = 512;

/// A read that takes longer goes on in another thread, on a view of the tables, unless the setting `statement-slice` says
/// otherwise, microseconds.
pub const READ_SLICE_US: u64 = 1000;
/// Threads for such reads; each can keep one core busy.
pub const READERS_MAX: usize = 2;
/// Such reads that may wait for a thread.
pub const READS_WAITING_MAX: usize = 1000;
/// Bytes of keys that such a read may copy.
pub const READ_KEYS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of changed pages that may be kept for a view; then it ends ("snapshot too old").
pub const VIEW_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Deepest nesting of SQL statements, scripts and triggers in each other.
pub const NESTING_MAX: usize = 16;
/// Most triggers of a store.
pub const TRIGGERS_MAX: usize = 10_000;
/// Most triggers that fire each other, on rows as on keys: each takes a part of the thread's stack.
pub const TRIGGER_DEPTH_MAX: usize = 7;
/// Most events of keys that the triggers of one request may make.
pub const TRIGGER_EVENTS_MAX: usize = 100_000;
/// Most schedules of a store.
pub const SCHEDULES_MAX: usize = 1000;
/// Shortest period of a schedule, milliseconds.
pub const SCHEDULE_MS_MIN: u64 = 10;
/// Longest period of a schedule, milliseconds: 10 000 days.
pub const SCHEDULE_MS_MAX: u64 = 10_000 * 86_400_000;
/// Longest chain of foreign keys that cascade (SQLite's limit).
pub const FOREIGN_KEY_DEPTH_MAX: usize = 1000;
/// Most rows of one statement that may wait for the rows they refer to.
pub const FOREIGN_KEYS_PENDING_MAX: usize = 1 << 20;
/// Scripts remembered that came with EVAL only; those loaded with SCRIPT LOAD are not limited.
pub const SCRIPTS_EVALLED_MAX: usize = 4096;
/// The most that the setting for the memory of an interpreter can be, bytes: LuaJIT addresses no more than 128 TB, and
/// whoever has less is told so by the allocator.
pub const PROCEDURE_MEMORY_BYTES_MAX: i64 = 1 << 46;
/// Most memory the scripts' interpreter may hold, bytes, unless the setting `procedure-memory-limit` says otherwise.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 256 << 20;
/// Longest code of a library of functions, and most bytes of what it says of them, bytes.
pub const LIBRARY_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of functions of libraries, of triggers and those called by SQL in each other.
pub const PROCEDURE_DEPTH_MAX: usize = 8;
/// Most functions of one library.
pub const LIBRARY_FUNCTIONS_MAX: usize = 10_000;
/// How long the code of a library may run while it is loaded (Redis's limit), milliseconds.
pub const LIBRARY_LOAD_MS_MAX: u64 = 500;
/// Instructions of a library that is being loaded between two looks at the clock.
pub const LIBRARY_LOOK_EVERY: i32 = 50;
/// Deepest nesting that scripts may encode or decode (cjson's default is 1000).
pub const SCRIPT_DATA_DEPTH_MAX: usize = 1000;
/// Deepest nesting of a script's functions called back from our own, such as `string.gsub`'s.
pub const SCRIPT_CALLBACKS_MAX: usize = 100;
/// Most of the machine's stack that a script may take, bytes, and each function that others have called: past it sorts,
/// coroutines and formats do not nest any deeper.
pub const SCRIPT_STACK_BYTES_MAX: usize = 48 << 10;
/// Most values that one call of `struct.unpack` gives (Lua's limit for a function's stack is 8000).
pub const SCRIPT_RESULTS_MAX: i32 = 7900;
/// Calls of procedures outside of the store that may wait for a thread.
pub const PROCEDURES_WAITING_MAX: usize = 1000;
/// Threads for such procedures.
pub const PROCEDURE_THREADS_MAX: usize = 64;
/// Most bytes queued between MULTI and EXEC.
pub const MULTI_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most rows that one transaction of BEGIN may write.
pub const TRANSACTION_ROWS_MAX: usize = 4 << 20;
/// Most bytes of rows, and as many of keys, that one transaction of BEGIN may hold privately.
pub const TRANSACTION_BYTES_MAX: usize = 512 << 20;
/// Largest value that a transaction of BEGIN makes a private copy of, bytes.
pub const TRANSACTION_VALUE_BYTES_MAX: usize = 64 << 20;
/// Most savepoints in each other.
pub const SAVEPOINTS_MAX: usize = 1000;
/// Changed keys, and as many changed rows, that are remembered for the transactions that are open. Past that, those
/// that began before are taken to be in conflict.
pub const TRACKED_CHANGES_MAX: usize = 4 << 20;
/// Most elements picked with repetition by SRANDMEMBER and its kin: the one count that no data bounds.
pub const SAMPLE_MAX: u64 = 1 << 22;
/// Bytes of saved keys that may wait to be written before a checkpoint stops walking on.
pub const CHECKPOINT_WAITING_BYTES_MAX: usize = 4 << 20;
/// Longest block of a checkpoint, bytes. Most are short; but a key, a field and its value are not divided.
pub const CHECKPOINT_BLOCK_BYTES_MAX: usize = 3 * BULK_BYTES_MAX + (1 << 20);
/// Bytes that may wait to be written into the log; past that no more requests are read until it has caught up.
pub const LOG_QUEUE_BYTES_MAX: usize = 64 << 20;
