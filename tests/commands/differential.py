"""Runs one sequence of commands on the oracle and on the peer, and finds where they part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.commands.compare import SORTS, Comparer, command_name
from tests.commands.generators.family import Family, Sequence_
from tests.commands.generators.script import unwrap
from tests.commands.state import read_state, state_differences
from tests.support.resp import Connection, ConnectionClosed, ProtocolViolation, Push, Reply, Simple, encode
from tests.support.servers import Server

PEER = 1
OK = Simple(b"OK")
SCANS = ("scan", "hscan", "sscan", "zscan")
SCAN_CALLS_MAX = 10_000
REPLY_TIMEOUT_S = 20.0
SHOWN_CHARACTERS = 1200


@dataclass
class Difference:
    """Where two servers part: at the reply to a command, or in what they hold at the end."""

    commands: list[list[bytes]]
    """Up to the one that was answered differently."""
    oracle: Any
    peer: Any
    where: str

    @property
    def broke(self) -> bool:
        """Whether a connection broke, rather than that a reply was different."""
        return isinstance(self.oracle, Failure) or isinstance(self.peer, Failure)

    @property
    def kind(self) -> str:
        """Alike for differences that probably have one cause."""
        return f"{command_name(unwrap(self.commands[-1]))} {self.where}"

    def __str__(self) -> str:
        lines = [f"    {show(command)}" for command in self.commands]
        oracle, peer = _around_difference(repr(self.oracle), repr(self.peer))
        return "\n".join([f"the servers differ {self.where}", *lines, f"  oracle: {oracle}", f"  peer:   {peer}"])


@dataclass(frozen=True)
class Failure:
    """What a server did instead of answering; never equal to a reply."""

    what: str


class Pair:
    """The two servers, spoken to in one protocol version."""

    def __init__(self, oracle: Server, peer: Server, protocol: int) -> None:
        self.servers = (oracle, peer)
        self.protocol = protocol
        self._records = peer.name == "peryton"
        self._connections: list[Connection | None] = [None, None]

    def run(self, family: Family, sequence: Sequence_, transaction_at: int | None = None) -> Difference | None:
        """The first difference, or None; both servers are emptied before.

        From the command number `transaction_at` on, the peer works inside a transaction of BEGIN, which it commits at
        the end. On Peryton the effects of the sequence are checked, too: encoded and replayed into an empty store they
        must give the same state, and undone none at all.
        """
        commands = [command for step in sequence for command in step]
        try:
            self._begin()
            answers = self._exchange(family, commands[:transaction_at])
            if transaction_at is not None:
                self._control("BEGIN")
                for replies, more in zip(answers, self._exchange(family, commands[transaction_at:])):
                    replies.extend(more)
                self._control("COMMIT")
            difference = _first_difference(family, commands, *answers)
            return difference or self._compare_states(family, commands) or self._check_effects(commands)
        except Broken as broken:
            oracle, peer = broken.by_side
            return Difference(commands, oracle, peer, f"for the connection to the {broken.side} broke")

    # Talking

    def _connection(self, side: int) -> Connection:
        connection = self._connections[side]
        if connection is None:
            connection = self._connections[side] = self.servers[side].connect(timeout=REPLY_TIMEOUT_S)
        return connection

    def _begin(self) -> None:
        fresh = [("RESET",), ("HELLO", self.protocol), ("FLUSHALL",), ("FUNCTION", "FLUSH")]
        for side in (0, 1):
            try:
                self._on(side, lambda connection: connection.pipeline(fresh))
            except Broken:  # left over from a sequence that failed: once more, on a new connection
                self._on(side, lambda connection: connection.pipeline(fresh))
        if self._records:
            reply = self._on(PEER, lambda connection: connection("DEBUG", "EFFECTS", "START"))
            assert reply == OK, reply

    def _control(self, statement: str) -> None:
        reply = self._on(PEER, lambda connection: connection("SQL", statement))
        assert reply == OK, (statement, reply)

    def _on(self, side: int, talk: Any) -> Any:
        """Run `talk` on one connection; if it breaks, say so, and begin anew the next time."""
        try:
            return talk(self._connection(side))
        except (OSError, ConnectionClosed, ProtocolViolation) as error:
            self._forget_connections()
            server = self.servers[side]
            detail = f"\n{server.log_tail()}" if server.died() else ""
            raise Broken(side, f"{type(error).__name__}: {error}{detail}") from error

    def _forget_connections(self) -> None:
        """Both, for the other one has replies that nobody will read."""
        for connection in self._connections:
            if connection:
                connection.close()
        self._connections = [None, None]

    def _exchange(self, family: Family, commands: list[list[bytes]]) -> tuple[list[Reply], list[Reply]]:
        """The replies of both; pipelined, except that a scan is followed to its end on its own."""
        replies: tuple[list[Reply], list[Reply]] = ([], [])
        for batch in _batches(commands):
            if len(batch) == 1 and command_name(batch[0]) in SCANS:
                for side in (0, 1):
                    replies[side].append(self._on(side, lambda connection: _scan(connection, batch[0])))
                continue
            data = b"".join(map(encode, _marked(batch) if family.pushes else batch))
            for side in (0, 1):
                self._on(side, lambda connection: connection.send_raw(data))
            for side in (0, 1):
                read = _read_to_markers if family.pushes else Connection.read_many
                replies[side].extend(self._on(side, lambda connection: read(connection, len(batch))))
        return replies

    def _compare_states(self, family: Family, commands: list[list[bytes]]) -> Difference | None:
        states = []
        for side in (0, 1):
            self._on(side, lambda connection: connection.pipeline([("RESET",), ("HELLO", self.protocol)]))
            states.append(self._on(side, lambda connection: read_state(connection, family.databases)))
        was_sorted = any(command_name(unwrap(command)) in SORTS for command in commands)
        lines = state_differences(states[0], states[1], was_sorted)
        if not lines:
            return None
        left, right = ([line[side] for line in lines] for side in (0, 1))
        return Difference(commands, left, right, "in what they hold after")

    def _check_effects(self, commands: list[list[bytes]]) -> Difference | None:
        """Ask Peryton whether the recorded effects, replayed, give its state again, and, undone, the empty one."""
        if not self._records:
            return None
        reply = self._on(PEER, lambda connection: connection("DEBUG", "EFFECTS", "CHECK"))
        return None if reply == OK else Difference(commands, OK, reply, "when the effects are checked")


class Broken(Exception):
    """A connection broke: the server closed it, was too slow or sent nonsense."""

    def __init__(self, side: int, what: str) -> None:
        super().__init__(what)
        self.side = ("oracle", "peer")[side]
        self.by_side = [Failure(what) if side == at else "still connected" for at in (0, 1)]


def _first_difference(
    family: Family, commands: list[list[bytes]], left: list[Reply], right: list[Reply]
) -> Difference | None:
    comparer = Comparer()
    alike = comparer.alike_streams if family.pushes else comparer.alike
    for at, (command, ours, theirs) in enumerate(zip(commands, left, right)):
        if not alike(command, ours, theirs):
            return Difference(commands[: at + 1], ours, theirs, "in the reply to the last command")
    return None


def _batches(commands: list[list[bytes]]) -> list[list[list[bytes]]]:
    batches: list[list[list[bytes]]] = [[]]
    for command in commands:
        if command_name(command) in SCANS:
            batches += [[command], []]
        else:
            batches[-1].append(command)
    return [batch for batch in batches if batch]


def _scan(connection: Connection, command: list[bytes]) -> Reply:
    """The reply with every element of the whole scan, or the first reply that is an error."""
    place = 1 if command_name(command) == "scan" else 2
    whole: list[Any] = []
    for _ in range(SCAN_CALLS_MAX):
        reply = connection(*command)
        if type(reply) is not list or len(reply) != 2 or not isinstance(reply[1], list):
            return reply
        whole += reply[1]
        if reply[0] == b"0":
            return [b"0", whole]
        command = [*command[:place], reply[0], *command[place + 1 :]]
    return Failure("the scan does not end")


def _marked(commands: list[list[bytes]]) -> list[list[bytes]]:
    """Each command followed by a PING with its number, since it may answer with any number of replies."""
    return [item for at, command in enumerate(commands) for item in (command, [b"PING", b"marker %d" % at])]


def _read_to_markers(connection: Connection, count: int) -> list[list[Reply]]:
    answers = []
    for at in range(count):
        marker = b"marker %d" % at
        replies: list[Reply] = []
        while (reply := connection.read()) not in (marker, [b"pong", marker], Push([b"pong", marker])):
            replies.append(reply)
        answers.append(replies)
    return answers


def _around_difference(left: str, right: str) -> tuple[str, str]:
    """Both texts, or of long ones the part around the first character that differs."""
    if max(len(left), len(right)) < SHOWN_CHARACTERS:
        return left, right
    same = next(
        (at for at, (ours, theirs) in enumerate(zip(left, right)) if ours != theirs), min(len(left), len(right))
    )
    start = max(0, same - SHOWN_CHARACTERS // 2)
    cut = slice(start, start + SHOWN_CHARACTERS)
    return f"[{start}:] {left[cut]}", f"[{start}:] {right[cut]}"


def show(command: list[bytes]) -> str:
    """A command as it would be typed: quoted and escaped where needed."""
    return " ".join(map(_show_argument, command))


def _show_argument(argument: bytes) -> str:
    plain = bool(argument) and all(33 <= byte < 127 and byte not in b"\"'\\" for byte in argument)
    if plain:
        return argument.decode()
    inside = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in argument)
    return f'"{inside}"'
