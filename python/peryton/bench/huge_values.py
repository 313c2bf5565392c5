"""Huge values during a checkpoint: the longest time that one client waits for a reply, whatever becomes of them.

One connection asks one thing after another: GET and SET of small keys, and changes of a large set, string and list.
Whoever stalls the server stalls it, too. First without a checkpoint, then while one is made, and then while the huge
values are renamed, replaced and removed in its midst.
"""

import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from peryton.bench import peers
from peryton.bench.peers import OURS, Server
from peryton.bench.runner import Bench, Result, Unsound

#: Elements for each key that the scale has: 10 M members in the full form.
_MEMBERS_PER_KEY = 100
_LIST_SHARE = 5
#: As long as a string may be, in the full form.
_STRING_BYTES = 512 << 20
_PART_BYTES = 16 << 20
_AT_ONCE = 1000
#: How long is measured without a checkpoint, seconds.
_BASE_S = 3.0
#: A checkpoint that takes longer has been forgotten.
_PATIENCE_S = 600.0

Words = Sequence[str | bytes]


def _packed(words: Words) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Prober:
    """A connection that notes how long each kind of request took at most."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self.longest: dict[str, float] = {}
        self.requests = 0

    def close(self) -> None:
        """Ends the connection."""
        self._file.close()
        self._socket.close()

    def ask(self, *words: str | bytes, name: str = "") -> bytes:
        """Makes one request; its time counts under `name`, else under the command."""
        request, name = _packed(words), name or str(words[0])
        began = time.perf_counter()
        self._socket.sendall(request)
        line = self._file.readline()
        if line[:1] == b"$" and line[1:2] != b"-":
            self._file.read(int(line[1:]) + 2)
        took = time.perf_counter() - began
        if line[:1] == b"-":
            raise Unsound(f"{words[0]!r}: {line.decode(errors='replace').strip()}")
        self.longest[name] = max(self.longest.get(name, 0.0), took)
        self.requests += 1
        return line

    def send_all(self, requests: Iterator[bytes], at_once: int = 16) -> None:
        """Makes many requests, some at a time, whose replies are one line each; counts nothing."""
        waiting = 0
        for request in requests:
            self._socket.sendall(request)
            waiting += 1
            if waiting == at_once:
                self._file.readline()
                waiting -= 1
        for _ in range(waiting):
            self._file.readline()


@dataclass
class _Values:
    """The huge values, under the names that they have now."""

    members: int
    string_bytes: int
    names: dict[str, str] = field(default_factory=lambda: {"set": "set", "string": "string", "list": "list"})

    def fill(self, prober: Prober) -> None:
        """Makes them."""
        prober.send_all(self._pushes("SADD", "set", self.members))
        prober.send_all(self._pushes("RPUSH", "list", self.members // _LIST_SHARE))
        part = b"x" * min(_PART_BYTES, self.string_bytes // 2)
        # The first one says how long it will be, and then it gets room for APPEND, so that it is not moved later.
        starts = range(0, self.string_bytes - 2 * len(part) + 1, len(part))
        prober.send_all((_packed(("SETRANGE", "string", str(at), part)) for at in reversed(starts)), at_once=1)
        prober.send_all(iter([_packed(("APPEND", "string", "more"))]))

    def _pushes(self, command: str, key: str, count: int) -> Iterator[bytes]:
        for first in range(0, count, _AT_ONCE):
            yield _packed((command, key, *(f"member:{n:09}" for n in range(first, min(first + _AT_ONCE, count)))))

    def touch(self, prober: Prober, chance: random.Random) -> None:
        """Some requests, one after another."""
        prober.ask("SET", f"small:{chance.randrange(1000)}", "value")
        prober.ask("GET", f"small:{chance.randrange(1000)}")
        member = f"member:{chance.randrange(2 * self.members):09}"
        if name := self.names.get("set"):
            prober.ask(chance.choice(("SADD", "SREM")), name, member)
            prober.ask("SISMEMBER", name, member)
        if name := self.names.get("string"):
            prober.ask("SETRANGE", name, str(chance.randrange(self.string_bytes // 2)), b"written " * 500)
            prober.ask("APPEND", name, "more")
        if name := self.names.get("list"):
            prober.ask(chance.choice(("LPUSH", "RPUSH")), name, member)
            prober.ask(chance.choice(("LPOP", "RPOP")), name)
            prober.ask("LTRIM", name, str(chance.randrange(3)), str(-1 - chance.randrange(3)))


def _is_saving(server: Server) -> bool:
    return b"rdb_bgsave_in_progress:1" in server.info("persistence")


def _during(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _while_saving(prober: Prober, server: Server) -> Callable[[], bool]:
    """True while a checkpoint that is begun here is being made."""
    prober.ask("BGSAVE")
    time.sleep(0.1)
    began, looked = time.monotonic(), [0.0, 1.0]

    def goes_on() -> bool:
        now = time.monotonic()
        if now - began > _PATIENCE_S:
            raise Unsound("the checkpoint has no end")
        if now - looked[0] > 0.1:
            looked[:] = [now, float(_is_saving(server))]
        return bool(looked[1])

    return goes_on


def _upheaval(values: _Values, prober: Prober) -> Iterator[None]:
    """What becomes of the huge values, one thing after another."""
    names = values.names
    for step in range(3):
        for kind in list(names):
            other = f"{kind}:{step}"
            prober.ask("RENAME", names[kind], other)
            names[kind] = other
            yield
    prober.ask("SET", names.pop("string"), "short", name="SET over it")
    yield
    prober.ask("LTRIM", names["list"], "5", "9", name="LTRIM to 5 values")
    yield
    prober.ask("DEL", names.pop("set"), name="DEL")
    yield
    prober.ask("FLUSHALL")
    yield


def _phase(
    title: str,
    values: _Values,
    prober: Prober,
    goes_on: Callable[[], bool],
    steps: Iterator[None] | None = None,
    pause_s: float = 0.1,
) -> Result:
    """Asks while it goes on; a step every `pause_s`."""
    chance = random.Random(1)
    prober.longest.clear()
    prober.requests = 0
    began = time.monotonic()
    next_step = began + pause_s
    while goes_on():
        values.touch(prober, chance)
        if time.monotonic() > next_step:
            next(steps or iter(()), None)
            next_step = time.monotonic() + pause_s
    took = time.monotonic() - began
    result = Result(f"huge-{title}", f"huge values, {title}: longest wait of a client")
    result.add(OURS, {"longest_ms": max(prober.longest.values()) * 1000})
    longest = sorted(prober.longest.items(), key=lambda item: -item[1])
    told = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in longest)
    result.notes.append(f"{prober.requests} requests in {took:.1f} s; longest of each, ms: {told}")
    return result


def run(bench: Bench) -> Iterator[Result]:
    """Peryton alone: its peers save in a process of their own."""
    members = max(bench.scale.keys * _MEMBERS_PER_KEY, 20_000)
    string_bytes = min(_STRING_BYTES, members * 54)
    values = _Values(members, string_bytes)
    with peers.start(peers.promising(bench.programs[OURS], "interval")) as server:
        prober = Prober(server)
        bench.tell(f"a set of {members} members, a string of {string_bytes >> 20} MB, a list")
        # No checkpoint but those asked for.
        prober.ask("CONFIG", "SET", "checkpoint-log-bytes", "0")
        values.fill(prober)
        prober.send_all(_packed(("SET", f"small:{n}", "value")) for n in range(1000))
        yield _phase("no checkpoint", values, prober, _during(_BASE_S))
        yield _phase("a checkpoint", values, prober, _while_saving(prober, server))
        upheaval = _upheaval(values, prober)
        yield _phase("renamed and removed during a checkpoint", values, prober, _while_saving(prober, server), upheaval)
        prober.close()
