"""The threads that run procedures: each asks for the next call, runs its function, and says what came of it."""

from __future__ import annotations

import logging
import os
import traceback
from typing import TYPE_CHECKING, Any

from peryton.exceptions import ClosedError, ConflictError, ReplyError
from peryton.procedures.convert import Word
from peryton.procedures.handle import Handle

if TYPE_CHECKING:
    from peryton import _core
    from peryton.procedures.registry import Registry

log = logging.getLogger("peryton.procedures")

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MESSAGE_CHARS_MAX = 1000


class StopProcedure(BaseException):
    """Raised in a procedure whose time is up or whose caller no longer waits.

    No `Exception`, so that `except Exception` lets it pass. A procedure that catches it is sent it again.
    """


def work(registry: Registry, worker: _core.Worker) -> None:
    """What a thread does until the store closes."""
    is_over = False
    while not is_over:
        # StopProcedure can hit between two lines of ours; the worker knows then what became of its call.
        try:
            job = worker.next()
            while job is not None:
                try:
                    value = _call(registry, *job)
                except BaseException as error:
                    job = worker.fail(*_failure(job[0], error))
                else:
                    job = worker.finish(value)
            is_over = True
        except StopProcedure:
            continue


def _call(registry: Registry, name: str | None, session: _core.Session, given: list[Any], untyped: bool) -> Any:
    if name is None:
        return registry.reload()
    procedure = registry.get(name)
    arguments = procedure.signature.bind([Word(word) for word in given] if untyped else given)
    handle = Handle(session)
    try:
        return procedure.function(handle, *arguments)
    finally:
        handle._end()


def _failure(name: str | None, error: BaseException) -> tuple[str, bool]:
    """The error reply, and whether the procedure may run again."""
    what = name or "RELOAD"
    if isinstance(error, ReplyError) and not isinstance(error, ClosedError):
        # What the store refused, or what the procedure refuses with a code of its own.
        return one_line(str(error)), isinstance(error, ConflictError)
    if not isinstance(error, StopProcedure):
        # Not a warning: without further ado Python would print those, and an exception may be an ordinary refusal.
        log.info("procedure %s failed", what, exc_info=error)
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return one_line(f"PROCEDURE {what}: {message}{_place(error)}"), False


def one_line(text: str) -> str:
    """Text as an error reply may have it."""
    text = " ".join(text.split())
    if len(text) > _MESSAGE_CHARS_MAX:
        text = text[:_MESSAGE_CHARS_MAX] + " .."
    return text.encode("utf-8", "replace").decode()


def _place(error: BaseException) -> str:
    """Where it was raised: the innermost line that is not ours."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    return f" ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else ""
