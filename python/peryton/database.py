"""`Database`: the one surface of Peryton, whether the store lives in this process or behind a socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from peryton import _calls, _core, transactions
from peryton._calls import Call, Parameters, Record, Value
from peryton._links import Link, Pool
from peryton._resp import Argument
from peryton.client import Address, SocketLink
from peryton.procedures import Handle, registry
from peryton.results import Rows
from peryton.transactions import Transaction

if TYPE_CHECKING:
    import redis

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Database:
    """A store, embedded (`peryton.open`) or remote (`peryton.connect`).

    Safe to share between threads: each call uses a session of its own, so a blocking command delays no other thread.
    Not usable in a forked child: open or connect there again.
    """

    def __init__(
        self,
        *,
        store: _core.Store | None = None,
        address: Address | None = None,
        db: int = 0,
        procedure_threads: int = registry.THREADS,
    ) -> None:
        if (store is None) == (address is None):
            raise TypeError("a Database has either a store or an address: use peryton.open() or peryton.connect()")
        self._store = store
        self._address = address
        self._db = db
        self._pool = Pool(_link_maker(store, address, db))
        self._servers: list[_core.Server] = []
        self._procedures = None if store is None else registry.Registry(store.procedures(), procedure_threads)
        self._statements = store.statements(db) if store is not None else None
        if self._statements is not None:
            # An embedded store runs statements without a Python frame in between: twice as fast for one row.
            self.sql = self._statements.run  # type: ignore[method-assign]

    # --- both natures ---------------------------------------------------------------------------------------------

    def sql(self, text: str, params: Parameters | None = None) -> Rows:
        """Runs a SQL statement: `db.sql("SELECT * FROM t WHERE id = ?", [7])` or `:name` with a mapping."""
        return self._run(_calls.sql(text, params))

    def sql_many(self, text: str, rows: Iterable[Parameters], *, batch: int = _calls.ROWS_AT_ONCE) -> int:
        """Runs a statement that writes once for each row of parameters; gives how many rows it changed in all.

        `db.sql_many("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b")])`, or `:name` with mappings. Each `batch` of
        rows is one atomic step: when one fails, the batches before it stay.
        """
        return sum(map(self._run, _calls.many(text, rows, batch)))

    def command(self, *args: Argument) -> Any:
        """Runs any command: `db.command("SET", "key", "value")`.

        Bulk strings come back as bytes, status lines as str, maps as dict, sets as list; an error is raised.
        """
        return self._run(_calls.command(args))

    def pipeline(self, requests: Iterable[Sequence[Argument]]) -> list[Any]:
        """Runs several commands in one go; error replies stand in the list as exception objects."""
        return self._run_many([_calls.command(request) for request in requests])

    def table(self, name: str) -> Table:
        """A table's rows by key, without SQL."""
        return Table(self, name)

    def transaction(self, *, read_only: bool = False) -> Transaction:
        """A transaction over tables and keys: `with db.transaction() as t: t.sql(...)`.

        The end of the block commits, an exception rolls back. Another transaction that was first with a row or key
        makes the block end with ConflictError.
        """
        return Transaction(self._pool, read_only=read_only)

    def run_transaction(
        self, work: Callable[[Transaction], T], *, retries: int = transactions.RETRIES, read_only: bool = False
    ) -> T:
        """Runs `work(t)` in a transaction and gives its result; up to `retries` times again after a ConflictError.

        `work` may run several times, so what it does besides the transaction should bear that.
        """
        return transactions.run(lambda: self.transaction(read_only=read_only), work, retries)

    def call(self, procedure: str | Callable[..., Any], *args: Any) -> Any:
        """Calls a procedure, Python's or that of a Lua library, and gives what it gives.

        Arguments are values as in `sql`, and lists and dictionaries, which travel as JSON.
        """
        return self._run(_calls.call(procedure, args))

    def redis(self, **options: Any) -> redis.Redis:
        """A redis-py client of this store; `options` are those of `redis.Redis` (decode_responses, protocol, ...)."""
        if self._store is not None:
            from peryton.embedded_redis import embedded_client

            return embedded_client(self._store, db=options.pop("db", self._db), **options)
        assert self._address is not None
        return remote_client(self._address, options)

    # --- procedures -----------------------------------------------------------------------------------------------

    def register(self, function: Callable[..., Any]) -> None:
        """Makes a function a procedure of this embedded store, in the place of the one with its name.

        Its first parameter is the `Handle`. Without `@peryton.procedure` it has that one's defaults.
        """
        self._registry().register(function)

    def procedure(self, function: F) -> F:
        """As a decorator: makes a function a procedure of this embedded store."""
        self.register(function)
        return function

    def load_procedures(self, *modules: str) -> list[str]:
        """Loads the procedures of modules, each `module` or `module:name,name`; gives their names.

        `PROCEDURE RELOAD` loads them anew.
        """
        return self._registry().load(modules)

    def _registry(self) -> registry.Registry:
        if self._procedures is None:
            raise TypeError("this store is remote: its server loads procedures (peryton serve --procedures)")
        return self._procedures

    # --- the handle -----------------------------------------------------------------------------------------------

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        unixsocket: str | os.PathLike[str] | None = None,
        password: str | None = None,
    ) -> _core.Server:
        """Opens a door for Redis and Peryton clients on this embedded store; port 0 takes a free one.

        An address that other machines can reach needs a password. The server stops with `.stop()` or `close()`.
        """
        if self._store is None:
            raise TypeError("this store is remote and is served already")
        path = None if unixsocket is None else os.fspath(unixsocket)
        server = self._store.serve(host, port, unixsocket=path, password=password)
        self._servers.append(server)
        return server

    def serve_at(self, door: _core.Loading) -> _core.Server:
        """Serves this embedded store at a door that was opened before it: clients that have come stay connected.

        Until now they heard LOADING. `door = peryton.Loading("127.0.0.1", 7379)`, then `peryton.open(directory,
        progress=lambda phase, done, total: door.tell(done, total)).serve_at(door)`.
        """
        if self._store is None:
            raise TypeError("this store is remote and is served already")
        server = self._store.take_over(door)
        self._servers.append(server)
        return server

    def close(self) -> None:
        """Closes the handle; an embedded store is closed with it. Closing twice is harmless."""
        self._pool.close()
        if self._statements is not None:
            self._statements.close()
        for server in self._servers:
            server.stop()
        self._servers.clear()
        if self._store is not None:
            self._store.close()

    @property
    def closed(self) -> bool:
        """Whether the handle is closed."""
        return self._pool.closed

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        what = repr(self._store) if self._store is not None else str(self._address)
        return f"<Database {what}{', closed' if self.closed else ''}>"

    # --- inside ---------------------------------------------------------------------------------------------------

    def _run(self, call: Call[T]) -> T:
        # As `Pool.lend` does, but without a context manager's cost: this is the path of every call.
        link = self._pool.take()
        try:
            result = call.shape(link.execute(call.args))
        except BaseException as error:
            self._pool.give_back_after(error, link)
            raise
        self._pool.give_back(link)
        return result

    def _run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        with self._pool.lend() as link:
            return link.pipeline([call.args for call in calls])


def _link_maker(store: _core.Store | None, address: Address | None, db: int) -> Callable[[], Link]:
    # No method of the database: that would be a cycle, and a store that nobody holds would live until it is found.
    if store is not None:
        return lambda: store.session(db)
    assert address is not None
    return lambda: SocketLink(address)


class Table:
    """The rows of one table by primary key, without SQL."""

    def __init__(self, database: Database | Transaction | Handle, name: str) -> None:
        self.name = name
        self._database = database

    def get(self, key: Any) -> Record | None:
        """The row with this primary key (a tuple if it has several columns), or None."""
        return self._database._run(_calls.get(self.name, key))

    def get_many(self, keys: Iterable[Any]) -> list[Record | None]:
        """The rows with these primary keys, in their order, None where there is no row."""
        listed = list(keys)
        return self._database._run(_calls.get_many(self.name, listed)) if listed else []

    def put(self, record: Mapping[str, Value]) -> int:
        """Inserts a row, or replaces the row with its primary key."""
        return self._database._run(_calls.put(self.name, record))

    def put_many(self, records: Iterable[Mapping[str, Value]]) -> int:
        """Inserts or replaces rows, thousands in one atomic step. Gives how many were put."""
        return sum(map(self._database._run, _calls.put_many(self.name, records)))

    def delete(self, *keys: Any) -> int:
        """Deletes the rows with these primary keys; gives how many there were."""
        return self._database._run(_calls.delete(self.name, keys)) if keys else 0

    def scan(self, batch: int = 1000) -> Iterator[Record]:
        """All rows, fetched a batch at a time; rows changed meanwhile may be seen or missed."""
        cursor: Any = 0
        while True:
            cursor, rows = self._database._run(_calls.scan(self.name, cursor, batch))
            yield from rows
            if _calls.text_of(cursor) == "0":
                return

    def info(self) -> Record:
        """What the store knows of the table: its columns, indexes, rows and bytes."""
        return self._database._run(_calls.info(self.name))

    def __repr__(self) -> str:
        return f"<Table {self.name}>"


def open(
    path: str | os.PathLike[str] | None = None,
    *,
    durability: str | None = None,
    maxmemory: int = 0,
    debug_commands: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
    db: int = 0,
    procedure_threads: int = registry.THREADS,
) -> Database:
    """Opens a store in this process: in a directory, or in memory only when there is no `path`.

    A directory belongs to one store at a time: a second opener is told whose it is.

    `durability` is what a call promises when it returns: `sync` (what it tells of is on disk), `interval` (the default:
    within a second) or `none` (no log at all; SAVE writes). `progress(phase, done, total)` hears how far reading the
    directory is: phase is "checkpoint" or "log", the others are bytes. `maxmemory` limits the bytes of keys and rows
    (0: no limit); `db` is the keyspace that commands use, 0 to 15. `debug_commands` allows DEBUG, which is for tests.
    `procedure_threads` run Python procedures, once there are some.
    """
    where = None if path is None else os.fspath(path)
    store = _core.Store(
        where, durability=durability, maxmemory=maxmemory, debug_commands=debug_commands, progress=progress
    )
    return Database(store=store, db=db, procedure_threads=procedure_threads)


def connect(
    url: str = "peryton://127.0.0.1:7379",
    *,
    db: int | None = None,
    username: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
) -> Database:
    """Connects to a Peryton server: `peryton://[user:password@]host[:port][/db]`, `redis://...` or `unix://path`.

    `timeout` bounds, in seconds, the wait for the connection and for each reply; without it calls wait for ever.
    """
    address = Address.parse(url).with_options(db=db, username=username, password=password, timeout=timeout)
    database = Database(address=address, db=address.db)
    # Connect now, so that a wrong address is an error here and not at the first use.
    with database._pool.lend():
        return database


def remote_client(address: Address, options: dict[str, Any]) -> redis.Redis:
    """A redis-py client of the server at `address`."""
    import redis

    settings: dict[str, Any] = {"db": address.db, "username": address.username, "password": address.password}
    if address.path is not None:
        settings["unix_socket_path"] = address.path
    else:
        settings |= {"host": address.host, "port": address.port}
    return redis.Redis(**(settings | options))
