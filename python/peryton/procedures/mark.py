"""`@procedure`: marks a function as a procedure, and leaves it a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from peryton.procedures.signature import Signature
from peryton.transactions import RETRIES

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__peryton_procedure__"
_RETRIES_MAX = 1000


@dataclass(frozen=True)
class Procedure:
    """A function as a procedure."""

    name: str
    function: Callable[..., Any]
    retries: int
    read_only: bool
    signature: Signature

    @property
    def description(self) -> str:
        """The first line of its documentation."""
        lines = (inspect.getdoc(self.function) or "").splitlines()
        return lines[0] if lines else ""

    def declaration(self) -> tuple[str, bool, int, str, str]:
        """What the store has to know of it."""
        return self.name, self.read_only, self.retries, str(self.signature), self.description


@overload
def procedure(function: F, /) -> F: ...


@overload
def procedure(*, name: str | None = None, retries: int = RETRIES, read_only: bool = False) -> Callable[[F], F]: ...


def procedure(
    function: F | None = None, /, *, name: str | None = None, retries: int = RETRIES, read_only: bool = False
) -> F | Callable[[F], F]:
    """Marks a function as a procedure; its first parameter is the `Handle`.

    `name` is what it is called by, else the function's own. After a conflict with another transaction it runs again, up
    to `retries` times. One that is `read_only` cannot write, so FCALL_RO may call it.
    """

    def mark(function: F) -> F:
        procedure = made(function, name=name, retries=retries, read_only=read_only)
        try:
            setattr(function, _MARK, procedure)
        except AttributeError:
            raise TypeError(f"procedure {procedure.name}: a {type(function).__name__} cannot be marked") from None
        return function

    return mark if function is None else mark(function)


def made(function: Callable[..., Any], *, name: str | None, retries: int, read_only: bool) -> Procedure:
    """A function as a procedure, or a TypeError or ValueError that says why it cannot be one."""
    if not callable(function):
        raise TypeError(f"a procedure is a function, not {type(function).__name__}")
    chosen = name if name is not None else getattr(function, "__name__", "")
    if not chosen.replace("_", "a").isalnum() or not chosen.isascii() or chosen[0].isdigit():
        raise ValueError(f"{chosen!r} is no name of a procedure: letters, digits and underscores make one")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"procedure {chosen}: it runs on a thread of its own, so it is a plain function")
    if not 0 <= retries <= _RETRIES_MAX:
        raise ValueError(f"procedure {chosen}: retries is a number from 0 to {_RETRIES_MAX}")
    signature = Signature.of(chosen, function)
    return Procedure(chosen, function, retries, read_only, signature)


def of(function: Callable[..., Any]) -> Procedure:
    """What a function is marked as; one without a mark is taken as it is."""
    found = mark_of(function)
    return found or made(function, name=None, retries=RETRIES, read_only=False)


def mark_of(function: object) -> Procedure | None:
    """What a function is marked as."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, Procedure) else None
