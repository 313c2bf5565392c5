"""Peryton: one data server with two natures, a Redis-compatible keyspace and SQL tables.

import peryton

db = peryton.open()                        # in this process; peryton.connect(url) is the same over the network
db.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
db.sql("INSERT INTO t VALUES (?, ?)", [1, "hind"])
db.command("ZADD", "board", 10, "hind")
db.redis().zrange("board", 0, -1)          # a real redis-py client
"""

from peryton._core import Loading, Server, __version__
from peryton.client import DEFAULT_PORT
from peryton.database import Database, Table, connect, open
from peryton.exceptions import (
    AuthError,
    ClosedError,
    ConflictError,
    ConstraintError,
    ForkError,
    InternalError,
    LimitError,
    LoadingError,
    NetworkError,
    PerytonError,
    ProcedureError,
    ReadOnlyError,
    ReplyError,
    ScriptError,
    SqlError,
    StoppedError,
    StorageError,
    TransactionAborted,
    WaitTimeoutError,
    WrongTypeError,
)
from peryton.procedures import Handle, procedure
from peryton.results import Rows
from peryton.transactions import Transaction

__all__ = [
    "DEFAULT_PORT",
    "AuthError",
    "ClosedError",
    "ConflictError",
    "ConstraintError",
    "Database",
    "ForkError",
    "Handle",
    "InternalError",
    "LimitError",
    "Loading",
    "LoadingError",
    "NetworkError",
    "PerytonError",
    "ProcedureError",
    "ReadOnlyError",
    "ReplyError",
    "Rows",
    "ScriptError",
    "Server",
    "SqlError",
    "StoppedError",
    "StorageError",
    "Table",
    "Transaction",
    "TransactionAborted",
    "WaitTimeoutError",
    "WrongTypeError",
    "__version__",
    "connect",
    "open",
    "procedure",
]
