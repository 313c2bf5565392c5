"""The way to a store that a `Database` uses: one `Link` per session, kept in a `Pool`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from peryton._resp import Argument
from peryton.exceptions import ClosedError


class Link(Protocol):
    """One session with a store: an embedded one (`_core.Session`) or a socket."""

    def execute(self, args: Sequence[Argument]) -> Any:
        """The reply to one request; raises an error reply."""

    def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies to several requests, error replies among them as exception objects."""

    def close(self) -> None:
        """Ends the session."""


class Pool:
    """Lends links, so that threads sharing a `Database` never wait for each other's blocking commands."""

    def __init__(self, make: Callable[[], Link]) -> None:
        self._make = make
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self.closed = False

    @contextmanager
    def lend(self) -> Iterator[Link]:
        """A link for one use; a link whose connection broke is not kept."""
        link = self.take()
        try:
            yield link
        except (OSError, ClosedError, KeyboardInterrupt):
            link.close()
            raise
        except BaseException:
            self.give_back(link)
            raise
        self.give_back(link)

    def take(self) -> Link:
        """An idle link, or a new one."""
        if self.closed:
            raise ClosedError("this handle is closed")
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def give_back(self, link: Link) -> None:
        """Keeps a link for the next use."""
        with self._lock:
            if not self.closed:
                self._idle.append(link)
                return
        link.close()

    def close(self) -> None:
        """Closes the idle links now, those in use when they come back."""
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()
