"""Service while everything is saved: requests come at half of the highest rate, before, during and after a BGSAVE.

The load is open (`Load.rate`), so a server that stands still makes late all requests that were due meanwhile. Each
server is asked at half of its own highest rate, measured first, by the same mix. All servers hold the same keys;
Peryton also holds as many rows, which its checkpoint saves, too.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from peryton import _core
from peryton.bench import machine
from peryton.bench.data import USUAL, fill_stock, millions
from peryton.bench.load import Command, Load, Paced, Phase, Sample, send
from peryton.bench.peers import OURS, Server
from peryton.bench.runner import Bench, Result, Unsound, check

_BEFORE, _DURING, _AFTER = 0, 1, 2
_SLOT_S = 0.1
#: How often the server is asked whether it has saved.
_LOOK_S = 0.1
#: Longest that saving may take, and the load lasts unless it is stopped.
_SAVE_S_MAX = 900.0
#: No server shall save or rewrite its log by itself meanwhile.
_QUIET = {OURS: (("checkpoint-log-bytes", 0), ("checkpoint-seconds", 0))}
_QUIET_PEER = (("auto-aof-rewrite-percentage", 0),)


#: Peryton's thread that saves.
_SAVER = "peryton-saver"


@dataclass(frozen=True)
class Mix:
    """What is asked, all alike often."""

    name: str
    title: str
    commands: tuple[Command, ...]
    only: tuple[str, ...] = ()

    def load(self, count: int) -> Load:
        """The load on a stock of so many keys and rows."""
        fields = (*USUAL.fields(count), f"id=uniform:1:{count + 1}", f"n=uniform:0:{count}")
        return Load(self.commands, fields)


_KEYS: tuple[Command, ...] = (("SET", USUAL.key(), USUAL.value), ("GET", USUAL.key()))
_ROWS: tuple[Command, ...] = (
    ("SQL", "UPDATE bench SET a = ? WHERE id = ?", "%n%", "%id%"),
    ("SQL", "SELECT * FROM bench WHERE id = ?", "%id%"),
)
_MIXES = (
    Mix("checkpoint-keys", "SET and GET", _KEYS),
    Mix("checkpoint-tables", "SET, GET, UPDATE and SELECT by key", (*_KEYS, *_ROWS), only=(OURS,)),
)


def run(bench: Bench) -> Iterator[Result]:
    """Each mix, on the servers in turns."""
    count = bench.scale.stock
    stock = f"{millions(count)} keys, on Peryton {millions(count)} rows too"
    results = [Result(mix.name, f"{mix.title} at half of the peak while all is saved: {stock}") for mix in _MIXES]
    with contextlib.ExitStack() as stack:
        servers = {}
        for name in bench.contenders():
            with bench.failing(results[0], name):
                servers[name] = stack.enter_context(bench.fresh(name, promise="interval"))
                prepare(servers[name])
                fill_stock(servers[name], count, bench.tell)
        for mix, result in zip(_MIXES, results, strict=True):
            mine = {name: server for name, server in servers.items() if not mix.only or name in mix.only}
            _measure(bench, mix, mine, result)
            yield result


def prepare(server: Server) -> None:
    """Sees to it that the server saves only when it is told to, and not at the priority of an urgent bench."""
    for setting, value in _QUIET.get(server.name, _QUIET_PEER):
        server.command("CONFIG", "SET", setting, value)
    machine.spare_background(server.pid, _SAVER)


def _measure(bench: Bench, mix: Mix, servers: dict[str, Server], result: Result) -> None:
    load = mix.load(bench.scale.stock)
    peaks = {}
    for name, server in servers.items():
        with bench.failing(result, name):
            bench.tell(f"{server.name}: the highest rate of {mix.title}")
            bench.wait_for_quiet()
            sample = send(load, server.port, seconds=bench.scale.seconds, warmup=bench.scale.warmup)
            check(sample, hits=True)
            peaks[name] = sample.requests / sample.seconds
    for _ in range(bench.scale.stock_rounds):
        for name, peak in peaks.items():
            if name not in result.failed:
                with bench.failing(result, name):
                    bench.tell(f"{name}: {mix.title} while all is saved")
                    bench.wait_for_quiet()
                    paced = replace(load, rate=peak / 2, slot_s=_SLOT_S)
                    _round(bench, servers[name], paced, result)
    result.notes.append(
        "kept: replies during the save / requests due; p99 growth: during / before; late p99: how late it was sent; "
        "rss during: the highest, for Redis and Valkey with what their child copied (rdb_last_cow_size)"
    )


def _round(bench: Bench, server: Server, load: Load, result: Result) -> None:
    """One save under load."""
    control = _core.LoadControl()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            send,
            load,
            server.port,
            seconds=_SAVE_S_MAX * 2,
            warmup=bench.scale.warmup,
            pids=[server.pid],
            control=control,
        )
        try:
            time.sleep(bench.scale.warmup + bench.scale.phase_s)
            before = server.rss_bytes()
            machine.reset_peak(server.pid)
            control.begin(_DURING)
            save_s = _save(server, running)
            control.begin(_AFTER)
            during = max(machine.peak_rss_bytes(server.pid), server.rss_bytes()) + _copied_bytes(server)
            time.sleep(bench.scale.phase_s)
        finally:
            control.stop()
        sample = running.result()
    check(sample, hits=True)
    if sample.paced is None:
        raise Unsound("the load had no rate")
    metrics = _metrics(sample, sample.paced, save_s) | _memory(before, during)
    if server.name == OURS:
        # A forked child's time would count as others'.
        metrics["other_cores"] = sample.metrics()["other_cores"]
    result.add(server.name, metrics)
    result.series.setdefault(server.name, []).append(
        {"slot_s": load.slot_s, "phases": [phase.from_s for phase in sample.paced.phases], "slots": sample.paced.slots}
    )


def _save(server: Server, running: "Future[Sample]") -> float:
    """Has the server save, and waits until it has; how long that took."""
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        saves = _persistence(line)["rdb_saves"]
        begun = time.monotonic()
        server.command("BGSAVE")
        while time.monotonic() < begun + _SAVE_S_MAX:
            time.sleep(_LOOK_S)
            if running.done():
                raise Unsound(f"the load ended early: {running.exception()}")
            said = _persistence(line)
            if said["rdb_bgsave_in_progress"] == "0":
                if said["rdb_last_bgsave_status"] != "ok":
                    raise Unsound("the server could not save")
                if int(said["rdb_saves"]) > int(saves):
                    return time.monotonic() - begun
    raise Unsound(f"not saved after {_SAVE_S_MAX:.0f} s")


def _persistence(line: socket.socket) -> dict[str, str]:
    """What INFO says of it.

    Asked over a connection that stays: a new client each time would take a core from the load and the server for two
    milliseconds, which the load would notice more than the save.
    """
    line.sendall(b"INFO persistence\r\n")
    head, _, text = line.recv(1 << 16).partition(b"\r\n")
    while len(text) < int(head[1:]) + 2:
        text += line.recv(1 << 16)
    return dict(row.split(":", 1) for row in text.decode().splitlines() if ":" in row)


def _copied_bytes(server: Server) -> int:
    """What a forked child had to itself; 0 where there is none."""
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        return int(_persistence(line).get("rdb_last_cow_size", 0))


def _memory(before: int, during: int) -> dict[str, float]:
    return {"rss_before_mb": before / 2**20, "rss_during_mb": during / 2**20, "memory_growth": during / before}


def _metrics(sample: Sample, paced: Paced, save_s: float) -> dict[str, float]:
    by_number = {phase.number: phase for phase in paced.phases}
    before, during, after = (_sound(by_number.get(number)) for number in (_BEFORE, _DURING, _AFTER))
    return {
        "asked_per_s": during.asked / (during.until_s - during.from_s),
        "kept": during.answered / during.asked,
        "p99_before_ms": before.ms[99.0],
        "p99_during_ms": during.ms[99.0],
        "p99_after_ms": after.ms[99.0],
        "p99_growth": during.ms[99.0] / before.ms[99.0],
        "longest_before_ms": before.ms[100.0],
        "longest_during_ms": during.ms[100.0],
        "late_p99_ms": paced.late_ms[99.0],
        "save_s": save_s,
    }


def _sound(phase: Phase | None) -> Phase:
    if phase is None or not phase.asked or not phase.answered:
        raise Unsound("a part of the load had no requests or no replies")
    return phase
