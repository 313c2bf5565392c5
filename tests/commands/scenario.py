"""Plays a scenario of several clients on both servers and compares what each client saw.

A scenario is a function of a `Stage`. It names clients, lets them send, wait and
read, and everything they do and see goes into a transcript. The scenario itself
asserts nothing: the transcript of the real Redis is what is expected.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.commands.compare import Comparer
from tests.commands.differential import show
from tests.commands.not_yet import NOT_YET
from tests.support.resp import Argument, Command, Connection, ConnectionClosed, Reply, encode_argument
from tests.support.servers import Server

WAIT_S = 20.0
SILENCE_S = 0.005
"""How long a client that hears nothing waits for it, after the server has had its chance to say something."""

Scenario = Callable[["Stage"], None]


@dataclass(frozen=True)
class Event:
    """One line of a transcript."""

    who: str
    command: list[bytes]
    """Empty for what came without being asked for at that moment."""
    seen: Any

    def __str__(self) -> str:
        return f"{self.who:>10} | {show(self.command)} -> {self.seen!r}"


class Actor:
    """A client with a name; whatever it reads is recorded."""

    def __init__(self, name: str, connection: Connection, stage: Stage) -> None:
        self.name = name
        self.connection = connection
        self._stage = stage

    def __call__(self, *command: Argument) -> Reply:
        """Send a command and read its reply."""
        self.connection.send(*command)
        return self._record(command, self._read_or_end())

    def together(self, *commands: Command) -> None:
        """Send commands in one piece, then read a reply for each."""
        self.connection.send_all(commands)
        for command in commands:
            self._record(command, self._read_or_end())

    def note_exactly(self, *command: Argument) -> None:
        """A command whose reply is compared without the tolerance of its kind."""
        self._record((), self.quietly(*command))

    def send(self, *command: Argument) -> None:
        """Send a command whose reply comes later, or never."""
        self.connection.send(*command)
        self._record(command, "sent")

    def read(self, count: int = 1) -> Reply:
        """Read replies or messages that must come; the last is returned."""
        return [self._record((), self._read_or_end()) for _ in range(count)][-1]

    def read_until(self, last: Reply) -> list[Reply]:
        """Read up to and with this one."""
        seen: list[Reply] = []
        while not seen or seen[-1] not in (last, "closed", "nothing"):
            seen.append(self.read())
        return seen

    def hears_nothing(self) -> None:
        """Record whether anything has come."""
        self._stage.settle()
        try:
            self._record((), self.connection.read(timeout=SILENCE_S))
        except TimeoutError:
            self._record((), "nothing")

    def quietly(self, *command: Argument) -> Reply:
        """A command that is no part of the transcript."""
        return self.connection(*command)

    def id(self) -> int:
        """The client's id, unrecorded, as it differs from server to server."""
        return int(self.quietly("CLIENT", "ID"))

    def leave(self) -> None:
        """Close the connection, as a client does that just goes away."""
        self._record((), "leaves")
        self.connection.close()

    def _read_or_end(self) -> Reply:
        try:
            return self.connection.read()
        except ConnectionClosed:
            return "closed"
        except ConnectionResetError:
            return "closed"
        except TimeoutError:
            return "nothing"

    def _record(self, command: Command, seen: Any) -> Any:
        self._stage.transcript.append(Event(self.name, [encode_argument(word) for word in command], seen))
        return seen


class Stage:
    """One server during one scenario."""

    def __init__(self, server: Server, protocol: int) -> None:
        self.server = server
        self.protocol = protocol
        self.transcript: list[Event] = []
        self._actors: list[Actor] = []
        self._control = server.connect()
        self._control.pipeline(
            [
                ("FLUSHALL",),
                ("CONFIG", "SET", "notify-keyspace-events", ""),
                ("SCRIPT", "FLUSH"),
                ("FUNCTION", "FLUSH"),
                ("CLIENT", "UNPAUSE"),
            ]
        )
        self._clients_before = self.info("connected_clients")

    def client(self, name: str, protocol: int | None = None) -> Actor:
        """A new connection, in the protocol of this run unless another is named."""
        connection = self.server.connect(protocol or self.protocol, timeout=WAIT_S)
        connection("PING")  # accepted, so that others can find it
        actor = Actor(name, connection, self)
        self._actors.append(actor)
        return actor

    def clients(self, *names: str) -> Iterator[Actor]:
        return (self.client(name) for name in names)

    def blocked(self, *waiters: tuple[str, str]) -> list[Actor]:
        """New clients that wait, in this order, each named and with its command in words."""
        actors = []
        for count, (name, command) in enumerate(waiters, start=1):
            actors.append(self.client(name))
            actors[-1].send(*command.split())
            self.wait_blocked(count)
        return actors

    def note(self, what: str, seen: Any) -> None:
        """Put something else that both servers must agree on into the transcript."""
        self.transcript.append(Event(what, [], seen))

    def info(self, field: str) -> int:
        """A number from INFO, or -1 where there is none."""
        for line in bytes(self._control("INFO", "clients")).decode(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value)
        return -1

    def wait_blocked(self, count: int) -> None:
        """Wait until so many clients are blocked, so that their order is certain."""
        self._wait("blocked_clients", count)

    def settle(self) -> None:
        """Let the server send all that follows from what it has been sent: two turns of its event loop are enough."""
        for _ in range(2):
            self._control("PING")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def end(self) -> None:
        """Close every connection and wait until the server has noticed."""
        for actor in self._actors:
            actor.connection.close()
        try:
            self._wait("connected_clients", self._clients_before)
        except TimeoutError:
            pass
        self._control.close()

    def _wait(self, field: str, count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while self.info(field) != count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.server.name}: {field} is {self.info(field)}, not {count}, after {WAIT_S} s")
            time.sleep(0.001)


def play(scenario: Scenario, protocol: int, oracle: Server, peer: Server) -> None:
    """Fail at the first line in which the two transcripts differ."""
    expected, actual = (_transcript(scenario, server, protocol) for server in (oracle, peer))
    comparers: defaultdict[str, Comparer] = defaultdict(Comparer)
    for at in range(max(len(expected), len(actual))):
        ours, theirs = (transcript[at] if at < len(transcript) else None for transcript in (expected, actual))
        if ours is None or theirs is None or not _alike(comparers, ours, theirs):
            before = [str(event) for event in expected[:at]]
            pytest.fail("\n".join(["", *before, f"  oracle: {ours}", f"  peer:   {theirs}"]), pytrace=False)


def _alike(comparers: dict[str, Comparer], ours: Event, theirs: Event) -> bool:
    if ours.who != theirs.who or len(ours.command) != len(theirs.command):
        return False
    if not ours.command:
        return bool(ours.seen == theirs.seen)
    return comparers[ours.who].alike(ours.command, ours.seen, theirs.seen)


def _transcript(scenario: Scenario, server: Server, protocol: int) -> list[Event]:
    stage = Stage(server, protocol)
    try:
        scenario(stage)
    except (TimeoutError, ConnectionClosed, OSError) as error:
        stage.note("stage", f"{type(error).__name__}: {error}")
    finally:
        stage.end()
    return stage.transcript


def each(text: str) -> list[str]:
    """The commands of a text that has one a line, or several with bars between."""
    return [command.strip() for line in text.strip().splitlines() for command in line.split(" | ")]


class Scenarios(list[Any]):
    """The scenarios of one file, collected by using it as a decorator."""

    def __call__(self, scenario: Scenario) -> Scenario:
        self.append(pytest.param(scenario, id=scenario.__name__))
        return scenario

    def not_yet(self, name: str) -> Callable[[Scenario], Scenario]:
        """The decorator of a scenario that needs something of the list in not_yet.py."""

        def collect(scenario: Scenario) -> Scenario:
            mark = pytest.mark.skip(reason=f"not yet: {NOT_YET[name]}")
            self.append(pytest.param(scenario, id=scenario.__name__, marks=mark))
            return scenario

        return collect

    def test(self) -> Callable[..., None]:
        """The test function that plays them all in both protocols."""

        @pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
        @pytest.mark.parametrize("scenario", self)
        def test_scenario(scenario: Scenario, protocol: int, oracle: Server, peer: Server) -> None:
            play(scenario, protocol, oracle, peer)

        return test_scenario
