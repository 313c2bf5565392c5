"""Transactions over tables and keys: what is done in one becomes visible at once, or not at all.

    with db.transaction() as t:
        (balance,) = t.sql("SELECT balance FROM accounts WHERE id = ?", [1]).one()
        t.sql("UPDATE accounts SET balance = ? WHERE id = ?", [balance - 10, 1])
        t.command("LPUSH", "log", "paid 10")

Reads see the tables as they were when the block began. Of two transactions that write the same row or key the one that
commits first wins; the other's block ends with `ConflictError`, and may be run again, which `run_transaction` does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from peryton import _calls
from peryton._calls import Call, Parameters
from peryton._links import Link, Pool
from peryton._resp import Argument
from peryton.exceptions import ConflictError, ReplyError
from peryton.results import Rows

if TYPE_CHECKING:
    from peryton.database import Table

T = TypeVar("T")

RETRIES = 10
"""How often a transaction that met a conflict is run again, unless the caller says otherwise."""


def begin(read_only: bool) -> Sequence[Argument]:
    """The request that opens a transaction."""
    return ("SQL", "BEGIN READ ONLY" if read_only else "BEGIN")


def pause_before(attempt: int) -> float:
    """Seconds to wait before the attempt of this number, the first being 0: none at first, then longer, never alike."""
    return 0.0 if attempt < 2 else random.uniform(0, min(0.001 * 2.0**attempt, 0.1))


class Transaction:
    """A transaction, between `with db.transaction() as t:` and the end of the block; of one thread at a time.

    The block's end commits; an exception that leaves the block rolls back.
    """

    def __init__(self, pool: Pool, *, read_only: bool = False) -> None:
        self._pool = pool
        self._read_only = read_only
        self._link: Link | None = None
        self._savepoints = 0

    def sql(self, text: str, params: Parameters | None = None) -> Rows:
        """Runs a SQL statement in the transaction, as `Database.sql`."""
        return self._run(_calls.sql_in_transaction(text, params))

    def sql_many(self, text: str, rows: Iterable[Parameters], *, batch: int = _calls.ROWS_AT_ONCE) -> int:
        """Runs a statement once for each row of parameters in the transaction, as `Database.sql_many`."""
        return sum(map(self._run, _calls.many(text, rows, batch)))

    def command(self, *args: Argument) -> Any:
        """Runs any command in the transaction, as `Database.command`."""
        return self._run(_calls.command(args))

    def pipeline(self, requests: Iterable[Sequence[Argument]]) -> list[Any]:
        """Runs several commands in one go; error replies stand in the list as exception objects."""
        return self._run_many([_calls.command(request) for request in requests])

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
        except BaseException:
            self.sql(f"ROLLBACK TO {name}")
            self.sql(f"RELEASE {name}")
            raise
        self.sql(f"RELEASE {name}")

    def __enter__(self) -> Transaction:
        if self._link is not None:
            raise RuntimeError("this transaction is open already")
        link = self._pool.take()
        try:
            link.execute(begin(self._read_only))
        except BaseException as error:
            self._pool.give_back_after(error, link)
            raise
        self._link = link
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link, self._link = self._open_link(), None
        if error is None:
            try:
                link.execute(("SQL", "COMMIT"))
            except BaseException as failure:
                self._pool.give_back_after(failure, link)
                raise
            self._pool.give_back(link)
            return
        if not isinstance(error, Exception):
            # The session may stand in the middle of a reply; without it there is no transaction.
            link.close()
            return
        try:
            link.execute(("SQL", "ROLLBACK"))
        except ReplyError:
            pass  # It has ended already.
        except Exception:
            link.close()
            return
        self._pool.give_back_after(error, link)

    def __repr__(self) -> str:
        return f"<Transaction, {'not open' if self._link is None else 'open'}>"

    def _open_link(self) -> Link:
        if self._link is None:
            raise RuntimeError("a transaction is used inside its with block: with db.transaction() as t: ...")
        return self._link

    def _run(self, call: Call[T]) -> T:
        return call.shape(self._open_link().execute(call.args))

    def _run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        return self._open_link().pipeline([call.args for call in calls])


def run(make: Callable[[], Transaction], work: Callable[[Transaction], T], retries: int) -> T:
    """Runs `work` in a transaction, again with a new one when it meets a conflict."""
    for attempt in range(retries + 1):
        time.sleep(pause_before(attempt))
        try:
            with make() as transaction:
                return work(transaction)
        except ConflictError:
            if attempt == retries:
                raise
    raise ValueError("retries is a number from 0 on")
