"""The way to a store that a `Database` uses: one `Link` per session, kept in a `Pool`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from peryton._resp import Argument
from peryton.exceptions import ClosedError, ForkError

_forks = 0
"""How often this process, seen from the first one, was forked."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Birth:
    """The process in which a handle was made."""

    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = _forks

    def check(self) -> None:
        """Raises ForkError in a child that was forked since."""
        if self._forks != _forks:
            raise ForkError("this handle belongs to the parent process: open or connect again here")


class LeftOpen(ValueError):
    """A statement for one session only has run on a session that others get next: that session is to be closed."""


class Link(Protocol):
    """One session with a store: an embedded one (`_core.Session`) or a socket."""

    def execute(self, args: Sequence[Argument]) -> Any:
        """The reply to one request; raises an error reply."""

    def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies to several requests, error replies among them as exception objects."""

    def close(self) -> None:
        """Ends the session."""


class Pool:
    """Lends links, so that threads sharing a `Database` never wait for each other's blocking commands.

    Has no lock: list.pop and list.append are each one step, and a link given back while the pool is being closed is
    closed by whoever looks last.
    """

    def __init__(self, make: Callable[[], Link]) -> None:
        self._make = make
        self._idle: list[Link] = []
        self._birth = Birth()
        self.closed = False

    def take(self) -> Link:
        """An idle link, or a new one."""
        self._birth.check()
        if self.closed:
            raise ClosedError("this handle is closed")
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def give_back(self, link: Link) -> None:
        """Keeps a link for the next use."""
        self._idle.append(link)
        if self.closed:
            self._close_idle()

    def give_back_after(self, error: BaseException, link: Link) -> None:
        """Keeps a link whose use failed, unless it broke or was left in the middle of a reply."""
        if isinstance(error, OSError | ClosedError | LeftOpen) or not isinstance(error, Exception):
            link.close()
        else:
            self.give_back(link)

    @contextmanager
    def lend(self) -> Iterator[Link]:
        """A link for one use."""
        link = self.take()
        try:
            yield link
        except BaseException as error:
            self.give_back_after(error, link)
            raise
        self.give_back(link)

    def close(self) -> None:
        """Closes the idle links now, those in use when they come back."""
        self.closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return
            link.close()
