"""Peryton over asyncio: the surface of `peryton.Database`, awaited.

    from peryton import aio

    async with await aio.connect("peryton://127.0.0.1:7379") as db:
        rows = await db.sql("SELECT 1 AS one")

Remote, it speaks over asyncio's streams. Embedded, each call runs on a worker thread, so the event loop never waits
for the store or the disk; cancelling a task ends its wait in a blocking command.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from peryton import _calls, _core, _resp, transactions
from peryton._calls import Call, Parameters, Record, Value
from peryton._links import Birth, LeftOpen
from peryton._resp import Argument
from peryton.client import Address
from peryton.exceptions import ClosedError, ConflictError, NetworkError, ReplyError, WaitTimeoutError
from peryton.procedures import registry
from peryton.results import Rows

if TYPE_CHECKING:
    import redis.asyncio

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

THREADS_MAX = 64
"""Most calls of one embedded `aio.Database` that run or wait at once; more wait for a thread."""
_RECEIVE_BYTES = 256 * 1024


class _AsyncLink(Protocol):
    """One session with a store, as `peryton._links.Link` but awaited."""

    async def execute(self, args: Sequence[Argument]) -> Any: ...
    async def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]: ...
    def close(self) -> None: ...


class _ThreadLink:
    """An embedded session whose calls run on worker threads."""

    def __init__(self, session: _core.Session, threads: ThreadPoolExecutor) -> None:
        self._session = session
        self._threads = threads

    async def execute(self, args: Sequence[Argument]) -> Any:
        return await self._on_thread(lambda: self._session.execute(args))

    async def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        return await self._on_thread(lambda: self._session.pipeline(requests))

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        # Not `close`, which waits for a script that has the store.
        self._session.leave()


class _StreamLink:
    """A session over asyncio's streams."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._decoder = _resp.Decoder()

    @staticmethod
    async def open(address: Address) -> _StreamLink:
        try:
            async with asyncio.timeout(address.timeout):
                if address.path is not None:
                    reader, writer = await asyncio.open_unix_connection(address.path)
                else:
                    reader, writer = await asyncio.open_connection(address.host, address.port)
        except TimeoutError:
            raise WaitTimeoutError(f"{address} does not answer") from None
        except OSError as error:
            raise NetworkError(f"cannot connect to {address}: {error.strerror or error}") from error
        link = _StreamLink(address, reader, writer)
        try:
            for reply in await link.pipeline(address.hello()):
                if isinstance(reply, Exception):
                    raise reply
        except BaseException:
            link.close()
            raise
        return link

    async def execute(self, args: Sequence[Argument]) -> Any:
        await self._send(_resp.encode(args))
        reply = await self._receive()
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        await self._send(_resp.encode_many(requests))
        return [await self._receive() for _ in requests]

    def close(self) -> None:
        self._writer.close()

    async def _send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise NetworkError(f"the connection to {self._address} broke: {error.strerror or error}") from error

    async def _receive(self) -> Any:
        while True:
            value = self._decoder.next()
            if value is _resp.PENDING:
                self._decoder.feed(await self._more())
            elif not isinstance(value, _resp.Push):
                return value

    async def _more(self) -> bytes:
        try:
            async with asyncio.timeout(self._address.timeout):
                data = await self._reader.read(_RECEIVE_BYTES)
        except TimeoutError:
            raise WaitTimeoutError(f"{self._address} did not answer in {self._address.timeout} s") from None
        except OSError as error:
            raise NetworkError(f"the connection to {self._address} broke: {error.strerror or error}") from error
        if not data:
            raise NetworkError(f"{self._address} closed the connection")
        return data


class Database:
    """A store, embedded (`aio.open`) or remote (`aio.connect`), for the tasks of one event loop."""

    def __init__(
        self,
        *,
        store: _core.Store | None = None,
        address: Address | None = None,
        db: int = 0,
        procedure_threads: int = registry.THREADS,
    ) -> None:
        if (store is None) == (address is None):
            raise TypeError("a Database has either a store or an address: use aio.open() or aio.connect()")
        self._store = store
        self._address = address
        self._db = db
        self._idle: list[_AsyncLink] = []
        self._threads = ThreadPoolExecutor(THREADS_MAX, "peryton") if store is not None else None
        self._procedures = None if store is None else registry.Registry(store.procedures(), procedure_threads)
        self._servers: list[_core.Server] = []
        self._birth = Birth()
        self._closed = False

    async def sql(self, text: str, params: Parameters | None = None) -> Rows:
        """Runs a SQL statement, as `peryton.Database.sql`."""
        return await self._run(_calls.sql(text, params))

    async def sql_many(self, text: str, rows: Iterable[Parameters], *, batch: int = _calls.ROWS_AT_ONCE) -> int:
        """Runs a statement once for each row of parameters, as `peryton.Database.sql_many`."""
        return await _total(self._run, _calls.many(text, rows, batch))

    async def command(self, *args: Argument) -> Any:
        """Runs any command, as `peryton.Database.command`."""
        return await self._run(_calls.command(args))

    async def pipeline(self, requests: Iterable[Sequence[Argument]]) -> list[Any]:
        """Runs several commands in one go; error replies stand in the list as exception objects."""
        return await self._run_many([_calls.command(request) for request in requests])

    def table(self, name: str) -> Table:
        """A table's rows by key, without SQL."""
        return Table(self, name)

    def transaction(self, *, read_only: bool = False) -> Transaction:
        """A transaction, as `peryton.Database.transaction`: `async with db.transaction() as t: await t.sql(...)`."""
        return Transaction(self, read_only=read_only)

    async def run_transaction(
        self,
        work: Callable[[Transaction], Awaitable[T]],
        *,
        retries: int = transactions.RETRIES,
        read_only: bool = False,
    ) -> T:
        """Awaits `work(t)` in a transaction, as `peryton.Database.run_transaction`."""
        for attempt in range(retries + 1):
            await asyncio.sleep(transactions.pause_before(attempt))
            try:
                async with self.transaction(read_only=read_only) as transaction:
                    return await work(transaction)
            except ConflictError:
                if attempt == retries:
                    raise
        raise ValueError("retries is a number from 0 on")

    async def call(self, procedure: str | Callable[..., Any], *args: Any) -> Any:
        """Calls a procedure, as `peryton.Database.call`."""
        return await self._run(_calls.call(procedure, args))

    def register(self, function: Callable[..., Any]) -> None:
        """Makes a plain function a procedure of this embedded store, as `peryton.Database.register`."""
        self._registry().register(function)

    def procedure(self, function: F) -> F:
        """As a decorator: makes a plain function a procedure of this embedded store."""
        self.register(function)
        return function

    async def load_procedures(self, *modules: str) -> list[str]:
        """Loads the procedures of modules, as `peryton.Database.load_procedures`; they are imported in a thread."""
        return await asyncio.to_thread(self._registry().load, modules)

    def _registry(self) -> registry.Registry:
        if self._procedures is None:
            raise TypeError("this store is remote: its server loads procedures (peryton serve --procedures)")
        return self._procedures

    def redis(self, **options: Any) -> redis.asyncio.Redis:
        """An asyncio redis-py client of this store.

        An embedded store has to be served first (`db.serve()`): redis-py's asyncio client needs a socket.
        """
        import redis.asyncio

        address = self._address
        if address is None:
            if not self._servers:
                raise TypeError("redis-py's asyncio client needs a socket: call db.serve() first")
            address = Address.parse(self._servers[0].address).with_options(db=self._db)
        settings: dict[str, Any] = {"db": address.db, "username": address.username, "password": address.password}
        if address.path is not None:
            settings["unix_socket_path"] = address.path
        else:
            settings |= {"host": address.host, "port": address.port}
        return redis.asyncio.Redis(**(settings | options))

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        unixsocket: str | os.PathLike[str] | None = None,
        password: str | None = None,
    ) -> _core.Server:
        """Opens a door on this embedded store, as `peryton.Database.serve`."""
        if self._store is None:
            raise TypeError("this store is remote and is served already")
        path = None if unixsocket is None else os.fspath(unixsocket)
        server = self._store.serve(host, port, unixsocket=path, password=password)
        self._servers.append(server)
        return server

    async def close(self) -> None:
        """Closes the handle; an embedded store is closed with it. Closing twice is harmless."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        if self._store is not None and self._threads is not None:
            # It waits for the disk and the servers. Not on `_threads`, where calls may wait for the end of the store.
            await asyncio.to_thread(self._store.close)
            self._servers.clear()
            self._threads.shutdown(wait=False)

    @property
    def closed(self) -> bool:
        """Whether the handle is closed."""
        return self._closed

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        what = repr(self._store) if self._store is not None else str(self._address)
        return f"<aio.Database {what}{', closed' if self._closed else ''}>"

    async def _run(self, call: Call[T]) -> T:
        async with self._lend() as link:
            return call.shape(await link.execute(call.args))

    async def _run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        async with self._lend() as link:
            return await link.pipeline([call.args for call in calls])

    @asynccontextmanager
    async def _lend(self) -> AsyncIterator[_AsyncLink]:
        """A link for one use. One that broke or was cancelled half-way through a reply is not kept."""
        self._birth.check()
        if self._closed:
            raise ClosedError("this handle is closed")
        link = self._idle.pop() if self._idle else await self._link()
        keep = True
        try:
            yield link
        except (OSError, ClosedError, LeftOpen, asyncio.CancelledError, KeyboardInterrupt):
            keep = False
            raise
        finally:
            if keep and not self._closed:
                self._idle.append(link)
            else:
                link.close()

    async def _link(self) -> _AsyncLink:
        if self._store is not None:
            assert self._threads is not None
            return _ThreadLink(self._store.session(self._db), self._threads)
        assert self._address is not None
        return await _StreamLink.open(self._address)


class Transaction:
    """A transaction, between `async with db.transaction() as t:` and the end of the block; of one task at a time."""

    def __init__(self, database: Database, *, read_only: bool = False) -> None:
        self._lend = database._lend
        self._read_only = read_only
        self._stack: AsyncExitStack | None = None
        self._link: _AsyncLink | None = None
        self._savepoints = 0

    async def sql(self, text: str, params: Parameters | None = None) -> Rows:
        """Runs a SQL statement in the transaction."""
        return await self._run(_calls.sql_in_transaction(text, params))

    async def sql_many(self, text: str, rows: Iterable[Parameters], *, batch: int = _calls.ROWS_AT_ONCE) -> int:
        """Runs a statement once for each row of parameters in the transaction."""
        return await _total(self._run, _calls.many(text, rows, batch))

    async def command(self, *args: Argument) -> Any:
        """Runs any command in the transaction."""
        return await self._run(_calls.command(args))

    async def pipeline(self, requests: Iterable[Sequence[Argument]]) -> list[Any]:
        """Runs several commands in one go; error replies stand in the list as exception objects."""
        return await self._run_many([_calls.command(request) for request in requests])

    def table(self, name: str) -> Table:
        """A table's rows by key, without SQL."""
        return Table(self, name)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A part of the transaction: an exception that leaves the block takes back what was done in it."""
        self._savepoints += 1
        name = f"peryton_{self._savepoints}"
        await self.sql(f"SAVEPOINT {name}")
        try:
            yield
        except Exception:
            await self.sql(f"ROLLBACK TO {name}")
            await self.sql(f"RELEASE {name}")
            raise
        await self.sql(f"RELEASE {name}")

    async def __aenter__(self) -> Transaction:
        if self._stack is not None:
            raise RuntimeError("this transaction is open already")
        async with AsyncExitStack() as stack:
            self._link = await stack.enter_async_context(self._lend())
            await self._link.execute(transactions.begin(self._read_only))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link, stack = self._open_link(), self._stack
        self._link = self._stack = None
        assert stack is not None
        if error is not None and (not isinstance(error, Exception) or isinstance(error, OSError | ClosedError)):
            # The session may stand in the middle of a reply; it is closed, and its transaction goes with it.
            with suppress(LeftOpen):
                async with stack:
                    raise LeftOpen
            return
        async with stack:
            if error is None:
                await link.execute(("SQL", "COMMIT"))
                return
            with suppress(ReplyError):
                await link.execute(("SQL", "ROLLBACK"))

    def __repr__(self) -> str:
        return f"<aio.Transaction, {'not open' if self._link is None else 'open'}>"

    def _open_link(self) -> _AsyncLink:
        if self._link is None:
            raise RuntimeError("a transaction is used inside its block: async with db.transaction() as t: ...")
        return self._link

    async def _run(self, call: Call[T]) -> T:
        return call.shape(await self._open_link().execute(call.args))

    async def _run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        return await self._open_link().pipeline([call.args for call in calls])


class Table:
    """The rows of one table by primary key, as `peryton.Table`."""

    def __init__(self, database: Database | Transaction, name: str) -> None:
        self.name = name
        self._database = database

    async def get(self, key: Any) -> Record | None:
        """The row with this primary key (a tuple if it has several columns), or None."""
        return await self._database._run(_calls.get(self.name, key))

    async def get_many(self, keys: Iterable[Any]) -> list[Record | None]:
        """The rows with these primary keys, in their order, None where there is no row."""
        listed = list(keys)
        return await self._database._run(_calls.get_many(self.name, listed)) if listed else []

    async def put(self, record: Mapping[str, Value]) -> int:
        """Inserts a row, or replaces the row with its primary key."""
        return await self._database._run(_calls.put(self.name, record))

    async def put_many(self, records: Iterable[Mapping[str, Value]]) -> int:
        """Inserts or replaces rows, thousands in one atomic step. Gives how many were put."""
        return await _total(self._database._run, _calls.put_many(self.name, records))

    async def delete(self, *keys: Any) -> int:
        """Deletes the rows with these primary keys; gives how many there were."""
        return await self._database._run(_calls.delete(self.name, keys)) if keys else 0

    async def scan(self, batch: int = 1000) -> AsyncIterator[Record]:
        """All rows, fetched a batch at a time; rows changed meanwhile may be seen or missed."""
        cursor: Any = 0
        while True:
            cursor, rows = await self._database._run(_calls.scan(self.name, cursor, batch))
            for row in rows:
                yield row
            if _calls.text_of(cursor) == "0":
                return

    async def info(self) -> Record:
        """What the store knows of the table: its columns, indexes, rows and bytes."""
        return await self._database._run(_calls.info(self.name))

    def __repr__(self) -> str:
        return f"<aio.Table {self.name}>"


async def open(
    path: str | os.PathLike[str] | None = None,
    *,
    durability: str | None = None,
    maxmemory: int = 0,
    db: int = 0,
    procedure_threads: int = registry.THREADS,
) -> Database:
    """Opens a store in this process, as `peryton.open`."""
    where = None if path is None else os.fspath(path)
    store = await asyncio.to_thread(_core.Store, where, durability=durability, maxmemory=maxmemory)
    return Database(store=store, db=db, procedure_threads=procedure_threads)


async def connect(
    url: str = "peryton://127.0.0.1:7379",
    *,
    db: int | None = None,
    username: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
) -> Database:
    """Connects to a Peryton server, as `peryton.connect`."""
    address = Address.parse(url).with_options(db=db, username=username, password=password, timeout=timeout)
    database = Database(address=address, db=address.db)
    async with database._lend():
        return database


async def _total(run: Callable[[Call[int]], Awaitable[int]], calls: Iterable[Call[int]]) -> int:
    """Runs calls one after another; gives the sum of what they give."""
    total = 0
    for call in calls:
        total += await run(call)
    return total
