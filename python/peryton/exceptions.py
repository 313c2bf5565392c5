"""The exceptions of Peryton, and the one place that turns an error reply into one of them.

PerytonError
├── ClosedError             the store, connection or server behind this handle is closed
├── ForkError               a handle from before a fork() was used in the child
├── NetworkError            no connection, or it broke; also a ConnectionError
├── WaitTimeoutError        no answer in time; also a TimeoutError
└── ReplyError              the store refused or failed the request; `.code` is the first word of its reply, and of a
    │                       statement's error `.sqlstate`, `.position` and `.hint` tell more
    ├── WrongTypeError      the key holds a value of another type
    ├── SqlError            SQL text that does not parse, or names what does not exist
    ├── ConstraintError     UNIQUE, NOT NULL, CHECK or a foreign key would break
    ├── ConflictError       a transaction lost against another; running it again may succeed
    ├── TransactionAborted  EXEC after a request that was refused when queued
    ├── AuthError           not authenticated, a wrong password, or not allowed
    ├── ProcedureError      a Python procedure failed, or was called with the wrong arguments
    ├── ScriptError         an unknown script, a script past its time, nothing to kill
    ├── ReadOnlyError       a write where only reads are allowed
    ├── LimitError          a limit was reached: memory, size, count or depth
    ├── StoppedError        cancelled, killed, unblocked or out of time
    ├── StorageError        the storage engine failed, or the store refuses writes
    └── InternalError       a bug in Peryton, caught at a border
"""

from __future__ import annotations

import re


class PerytonError(Exception):
    """Anything that Peryton raises."""


class ClosedError(PerytonError):
    """The store, connection or server behind this handle is closed.

    Solution: open or connect again; a `with` block shows how long a handle lives.
    """


class ForkError(PerytonError):
    """A handle from before a fork() was used in the child process.

    Solution: open the store in the process that uses it, or let the parent `.serve()` it and `connect()` in the child.
    """


class NetworkError(PerytonError, ConnectionError):
    """There is no connection to the server, or it broke.

    Solution: check that `peryton serve` runs at that address; a request that was on its way may or may not have run.
    """


class WaitTimeoutError(PerytonError, TimeoutError):
    """No answer came in time.

    Solution: raise `timeout` of `connect()`, or make the request smaller.
    """


class ReplyError(PerytonError):
    """The store refused the request or failed to carry it out.

    Solution: the message names what and where; `code` and `sqlstate` are stable and meant for programs.
    """

    def __init__(self, message: str = "", code: str = "ERR") -> None:
        super().__init__(message)
        self.code = code

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE of a statement's error, such as 42S02 (no such table) or 23505 (a key that exists)."""
        found = self._parts()
        return found["state"] if found else None

    @property
    def message(self) -> str:
        """The sentence alone, without state, position and hint."""
        found = self._parts()
        if found is None:
            return str(self.args[0]) if self.args else ""
        return str(found["sentence"]) + (found["rest"] or "")

    @property
    def position(self) -> int | None:
        """Where in the statement it is, in characters from 1."""
        found = self._parts()
        return int(found["position"]) if found and found["position"] else None

    @property
    def hint(self) -> str | None:
        """What may help."""
        found = self._parts()
        return found["hint"] if found else None

    def _parts(self) -> re.Match[str] | None:
        return _STATEMENT_ERROR.fullmatch(self.args[0]) if self.args else None

    def __str__(self) -> str:
        """The reply as it stood on the wire: the code, then the sentence."""
        return f"{self.code} {self.args[0]}" if self.args and self.args[0] else self.code

    def __reduce__(self) -> tuple[type[ReplyError], tuple[str, str]]:
        return type(self), (self.args[0] if self.args else "", self.code)


_STATEMENT_ERROR = re.compile(
    r"(?P<state>[0-9A-Z]{5}) (?P<sentence>.*?)"
    r"(?: at position (?P<position>\d+)(?P<rest>:.*?)?)?(?:; hint: (?P<hint>.*))?",
    re.DOTALL,
)


class WrongTypeError(ReplyError):
    """The key holds a value of another type.

    Solution: `TYPE key` tells which; use that type's commands, or delete the key first.
    """


class SqlError(ReplyError):
    """SQL text that does not parse, or that names a table or column which does not exist.

    Solution: the message quotes the place; SHOW TABLES and DESCRIBE tell what there is.
    """


class ConstraintError(ReplyError):
    """The statement would break UNIQUE, NOT NULL, CHECK or a foreign key; nothing was changed.

    Solution: change the row, or say what to do with ON CONFLICT.
    """


class ConflictError(ReplyError):
    """The transaction lost against another one; nothing was changed.

    Solution: run the transaction again.
    """


class TransactionAborted(ReplyError):
    """EXEC of a transaction in which a request was refused when queued; nothing was run.

    Solution: correct that request; its own reply said what was wrong.
    """


class AuthError(ReplyError):
    """The session is not authenticated, used a wrong password, or may not do this.

    Solution: give the password to `connect()`, as in `peryton://:password@host`.
    """


class ProcedureError(ReplyError):
    """A Python procedure raised an exception, or its arguments or what it gave do not fit; what it did is undone.

    Solution: the message names the procedure, and the exception with its place or the parameter.
    """

    def __init__(self, message: str = "", code: str = "PROCEDURE") -> None:
        super().__init__(message, code)


class ScriptError(ReplyError):
    """An unknown script, a script past its time limit, or nothing to kill.

    Solution: NOSCRIPT: send it with EVAL or SCRIPT LOAD again; BUSY: wait, or SCRIPT KILL.
    """


class LoadingError(ReplyError):
    """The server still reads its data, and answers nothing but INFO.

    Solution: wait and connect again; INFO persistence tells how far it is.
    """


class ReadOnlyError(ReplyError):
    """A write where only reads are allowed.

    Solution: use the writing form (EVAL instead of EVAL_RO).
    """


class LimitError(ReplyError):
    """A limit was reached: memory, size, count or depth; nothing was changed.

    Solution: the message names the limit; work in batches, or raise it.
    """


class StoppedError(ReplyError):
    """The request was cancelled, killed, unblocked by another session, or ran out of time.

    Solution: run it again, or raise its time limit.
    """


class StorageError(ReplyError):
    """The storage engine failed, or the store refuses writes until it is reopened or has space again.

    Solution: the message says which; look at the disk first.
    """


class InternalError(ReplyError):
    """A bug in Peryton, caught at a border; the message names the place.

    Solution: none on your side; please report it with the message.
    """


# The first word of an error reply to the exception it becomes; any other word is a plain ReplyError.
_CLASSES: dict[str, type[ReplyError]] = {
    "WRONGTYPE": WrongTypeError,
    "SQL": SqlError,
    "CONSTRAINT": ConstraintError,
    "CONFLICT": ConflictError,
    "EXECABORT": TransactionAborted,
    "NOAUTH": AuthError,
    "WRONGPASS": AuthError,
    "NOPERM": AuthError,
    "PROCEDURE": ProcedureError,
    "NOSCRIPT": ScriptError,
    "BUSY": ScriptError,
    "LOADING": LoadingError,
    "UNKILLABLE": ScriptError,
    "NOTBUSY": ScriptError,
    "READONLY": ReadOnlyError,
    "LIMIT": LimitError,
    "OOM": LimitError,
    "UNBLOCKED": StoppedError,
    "CANCELLED": StoppedError,
    "ENGINE": StorageError,
    "MISCONF": StorageError,
    "BUG": InternalError,
}


def error_from_reply(text: str) -> ReplyError:
    """The exception for an error reply such as `WRONGTYPE Operation against a key ...`."""
    word, _, sentence = text.partition(" ")
    if not word.isupper():
        return ReplyError(text)
    return _CLASSES.get(word, ReplyError)(sentence, word)
