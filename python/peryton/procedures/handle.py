"""What a procedure works with: the surface of a `Database` inside the transaction of one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from peryton import _calls
from peryton._calls import Call, Parameters
from peryton._links import Link
from peryton._resp import Argument
from peryton.exceptions import ProcedureError
from peryton.results import Rows

if TYPE_CHECKING:
    from peryton.database import Table

T = TypeVar("T")


class Handle:
    """The first argument of a procedure; of use until its call ends.

    All that is done with it is one transaction: the end of the procedure commits, an exception rolls back.
    """

    __slots__ = ("_link", "_savepoints")

    def __init__(self, link: Link) -> None:
        self._link: Link | None = link
        self._savepoints = 0

    def sql(self, text: str, *params: Any) -> Rows:
        """Runs a SQL statement: `db.sql("SELECT * FROM t WHERE id = ?", 7)`.

        Parameters stand one by one, or in one list, or, for `:name`, in one mapping.
        """
        given: Parameters = params
        if len(params) == 1 and isinstance(params[0], list | tuple | dict):
            given = params[0]
        return self._run(_calls.sql_in_transaction(text, given))

    def sql_many(self, text: str, rows: Iterable[Parameters], *, batch: int = _calls.ROWS_AT_ONCE) -> int:
        """Runs a statement once for each row of parameters, as `Database.sql_many`."""
        return sum(map(self._run, _calls.many(text, rows, batch)))

    def command(self, *args: Argument) -> Any:
        """Runs any command, as `Database.command`."""
        return self._run(_calls.command(args))

    def pipeline(self, requests: Iterable[Sequence[Argument]]) -> list[Any]:
        """Runs several commands in one go; error replies stand in the list as exception objects."""
        calls = [_calls.command(request) for request in requests]
        return self._open().pipeline([call.args for call in calls])

    def table(self, name: str) -> Table:
        """A table's rows by key, without SQL."""
        from peryton.database import Table

        return Table(self, name)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of the transaction: an exception that leaves the block takes back what was done in it."""
        self._savepoints += 1
        name = f"peryton_{self._savepoints}"
        self.sql(f"SAVEPOINT {name}")
        try:
            yield
        except Exception:
            self.sql(f"ROLLBACK TO {name}")
            self.sql(f"RELEASE {name}")
            raise
        self.sql(f"RELEASE {name}")

    def __repr__(self) -> str:
        return f"<Handle, {'ended' if self._link is None else 'open'}>"

    def _end(self) -> None:
        self._link = None

    def _open(self) -> Link:
        if self._link is None:
            raise ProcedureError("the call that this handle belonged to has ended")
        return self._link

    def _run(self, call: Call[T]) -> T:
        return call.shape(self._open().execute(call.args))
