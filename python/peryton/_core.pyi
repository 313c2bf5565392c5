"""The compiled core of Peryton; `peryton` is its public face."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, final, overload

from peryton._resp import Argument

__all__ = [
    "LoadControl",
    "Loading",
    "Procedures",
    "Responder",
    "Rows",
    "Server",
    "Session",
    "Statements",
    "Store",
    "Worker",
    "__version__",
    "check",
    "close_all",
    "load",
    "pack",
    "restore",
]

__version__: str

@final
class Store:
    """A store in this process."""

    def __new__(
        cls,
        path: str | None = None,
        *,
        durability: str | None = None,
        maxmemory: int = 0,
        debug_commands: bool = False,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> Store: ...
    def session(self, db: int = 0, *, protocol: int = 3) -> Session:
        """A new session in the keyspace `db`; `protocol` is the RESP version whose rules it follows."""

    def serve(
        self, host: str = "127.0.0.1", port: int = 0, *, unixsocket: str | None = None, password: str | None = None
    ) -> Server:
        """Opens a RESP door; port 0 takes a free one, and an empty host opens no TCP port."""

    def take_over(self, door: Loading) -> Server:
        """Serves at a door that was open while the store was not: clients that have come stay connected."""

    def statements(self, db: int = 0) -> Statements:
        """What runs statements in the keyspace `db`."""

    def procedures(self) -> Procedures:
        """The Python procedures of the store."""

    def close(self) -> None:
        """Stops its servers, ends its sessions' waits and closes the store; once is enough."""

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""

    @property
    def path(self) -> str | None:
        """The data directory; None for a store in memory."""

@final
class Procedures:
    """The Python procedures of a store."""

    def declare(self, routines: Sequence[tuple[str, bool, int, str, str]]) -> None:
        """Makes these the procedures: name, whether it only reads, retries, signature and description of each."""

    def worker(self, stopped: type[BaseException], start_thread: Callable[[], object]) -> Worker:
        """What the calling thread runs procedures with.

        `stopped` is the exception that ends one from outside, and `start_thread` is called when a thread does not come
        back from one.
        """

@final
class Worker:
    """What a thread runs procedures with."""

    def next(self) -> tuple[str | None, Session, list[Any], bool] | None:
        """The next call: the procedure's name (None: load all anew), its session, its arguments, and whether these are
        words without types. None: the thread is to end.
        """

    def finish(self, value: object) -> tuple[str | None, Session, list[Any], bool] | None:
        """Ends the current call with what its procedure gave, and gives the next one."""

    def fail(self, text: str, retry: bool) -> tuple[str | None, Session, list[Any], bool] | None:
        """Ends the current call with an error, text that begins with its code, and gives the next one.

        `retry`: it was a conflict, after which running the procedure again may help.
        """

@final
class Loading:
    """A RESP door whose store is still being opened: clients hear that it is loading."""

    def __new__(
        cls, host: str = "127.0.0.1", port: int = 0, *, unixsocket: str | None = None, password: str | None = None
    ) -> Loading: ...
    def tell(self, done: int, total: int) -> None:
        """Hears how far the loading is, in bytes."""

    def close(self) -> None:
        """Closes it, unless a store has it; once is enough."""

    @property
    def port(self) -> int:
        """Its TCP port; 0 when there is none, or a store has it."""

@final
class Statements:
    """Runs SQL statements on a store."""

    def run(self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Rows:
        """Runs a SQL statement with its parameters."""

    def close(self) -> None:
        """Ends the sessions."""

@final
class Rows(Sequence[tuple[Any, ...]]):
    """The rows of a statement as a sequence of tuples, with their column names.

    A statement that returns no rows (INSERT, CREATE TABLE, ...) gives an empty sequence whose `rowcount` is the number
    of rows it changed.
    """

    def __new__(cls, columns: tuple[str, ...], rows: list[tuple[Any, ...]], rowcount: int) -> Rows: ...
    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def rowcount(self) -> int:
        """Rows that there are, or that were changed."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[tuple[Any, ...]]: ...
    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries from column name to value."""

    def one(self) -> tuple[Any, ...]:
        """The only row; ValueError unless there is exactly one."""

    def scalar(self) -> Any:
        """The first value of the first row, or None when there is no row."""

    def column(self, name: str | int = 0) -> list[Any]:
        """One column's values, by name or position."""

@final
class Session:
    """One session with a store."""

    def execute(self, args: Sequence[Argument]) -> Any:
        """Runs a request and gives its reply; an error reply is raised. A blocking command waits here."""

    def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        """Runs several requests under one hold of the baton; error replies are exception objects."""

    def wait(self, timeout: float | None = None) -> list[Any]:
        """The pushes that arrived; waits for one for `timeout` seconds (None: for ever)."""

    def send(self, requests: Sequence[Sequence[Argument]]) -> None:
        """Runs requests and keeps their replies for `receive`, as a connection would."""

    def receive(
        self,
        timeout: float | None = None,
        *,
        protocol: int = 3,
        decode: bool = False,
        error: Callable[[str], object] | None = None,
    ) -> tuple[bool, Any]:
        """The next reply or push, in the shapes of redis-py's parsers for `protocol`; True with a push.

        `decode` gives byte strings as str. `error` makes the object that stands for an error reply. Raises
        TimeoutError when `timeout` seconds pass first.
        """

    def pending(self, timeout: float | None) -> bool:
        """Whether `receive` would answer at once, after waiting up to `timeout` seconds for it."""

    def close(self) -> None:
        """Ends the session and any wait in it."""

    def leave(self) -> None:
        """As `close`, but does not wait for whoever uses the store; for an event loop."""

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""

    @property
    def id(self) -> int:
        """The session's number, as in CLIENT ID."""

@final
class Server:
    """A RESP door on a store."""

    def stop(self) -> None:
        """Stops it and closes its connections; once is enough."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has stopped; False when `timeout` seconds passed first."""

    @property
    def port(self) -> int:
        """Its TCP port; 0 when it serves a Unix socket only."""

    @property
    def address(self) -> str:
        """Its address as a URL for `peryton.connect`."""

    @property
    def shut_down(self) -> bool:
        """Whether a client has ended it with SHUTDOWN."""

    @property
    def running(self) -> bool:
        """Whether it serves."""

def check(
    path: str, *, repair: bool = False, progress: Callable[[str, int, int], object] | None = None
) -> dict[str, Any]:
    """What a directory holds that no store has open; with `repair`, a damaged log is cut where the damage is."""

def restore(source: str, target: str, *, progress: Callable[[str, int, int], object] | None = None) -> dict[str, Any]:
    """Puts what a directory holds into another one, which must not exist, as a store of its own.

    Gives what `check` gives. If something is wrong, or there are no data, nothing is made.
    """

def close_all() -> None:
    """Closes every open store of this process; runs at the interpreter's exit."""

class _Phase(TypedDict):
    number: int
    from_ns: int
    until_ns: int
    asked: int
    answered: int
    percentiles_ns: list[tuple[float, int]]

class _Paced(TypedDict):
    sent: int
    late_percentiles_ns: list[tuple[float, int]]
    phases: list[_Phase]
    slots: list[tuple[int, int]]

class _Report(TypedDict):
    requests: int
    errors: int
    nils: int
    first_error: str | None
    seconds: float
    client_cpu_s: tuple[float, float]
    server_cpu_s: tuple[float, float]
    others_cpu_s: float
    stolen_cpu_s: float
    batches: int
    batch_mean_ns: float
    batch_percentiles_ns: list[tuple[float, int]]
    slowest: list[tuple[int, int]]
    hardest: tuple[int, int] | None
    paced: _Paced | None

@final
class LoadControl:
    """Steers a load at a rate from another thread."""

    def __new__(cls) -> LoadControl: ...
    def begin(self, phase: int) -> None:
        """From now on requests belong to this phase; a load begins with phase 0."""

    def stop(self) -> None:
        """Nothing more is sent; the load ends when all is answered."""

def load(
    host: str,
    port: int,
    commands: Sequence[tuple[int, Sequence[bytes | str]]],
    fields: Sequence[str] = ...,
    *,
    connections: int = 50,
    pipeline: int = 1,
    requests: int | None = None,
    seconds: float = 1.0,
    warmup: float = 0.0,
    setup: Sequence[Sequence[bytes | str]] = ...,
    pids: Sequence[int] = ...,
    watch_cpu: bool = False,
    seed: int = 1,
    patience: float = 30.0,
    rate: float | None = None,
    slot: float = 0.0,
    control: LoadControl | None = None,
) -> _Report:
    """Sends commands to a server and measures; runs without the GIL, and Ctrl-C ends it.

    With a rate, requests go out when they are due, and their times count from then; a control steers it, and then it
    asks for the GIL at no time.
    """

@final
class Responder:
    """A server that answers every request with the same bytes, on a thread of its own."""

    def __new__(cls, host: str = "127.0.0.1", port: int = 0, *, reply: bytes | str) -> Responder: ...
    def stop(self) -> None:
        """Closes its connections and stops; once is enough."""

    @property
    def port(self) -> int:
        """Its TCP port."""

    @property
    def requests(self) -> int:
        """Requests answered so far."""

def pack(rows: Iterator[Iterable[Any]], count: int, convert: Callable[[Any], Any]) -> bytes:
    """Packs up to `count` rows of an iterator, as SQL.PACKED takes them; empty at its end."""
