"""The targets of the issues as data, and whether a run met them."""

from collections.abc import Iterable
from dataclasses import dataclass

from peryton.bench import restart
from peryton.bench.peers import OURS
from peryton.bench.runner import Ratio, Result


@dataclass(frozen=True)
class Target:
    """A bound on one of our figures, by itself or as a ratio to a peer's."""

    issue: int
    result: str
    metric: str
    #: What is wanted in words.
    wanted: str
    at_least: float | None = None
    at_most: float | None = None
    #: The peer; None: the figure itself is bounded.
    beside: str | None = None

    def holds(self, figure: float) -> bool:
        """Whether a figure is within the bound."""
        return (self.at_least is None or figure >= self.at_least) and (self.at_most is None or figure <= self.at_most)


@dataclass(frozen=True)
class Verdict:
    """What a run says of a target."""

    target: Target
    #: None: not measured.
    met: bool | None
    #: The figure judged; its low and high are those of the rounds.
    figure: Ratio | None
    #: Why it was not measured, or that the rounds do not agree.
    remark: str = ""


def _beside_valkey() -> Iterable[Target]:
    for command in ("set", "get"):
        upper = command.upper()
        for pipeline, metric, what in ((1, "server_user_us", "user CPU"), (16, "server_cpu_us", "CPU")):
            name = f"{command}-p{pipeline}"
            yield Target(2, name, "rate", f"{upper} pipeline {pipeline}: speed", at_least=1.0, beside="valkey")
            yield Target(
                2, name, metric, f"{upper} pipeline {pipeline}: {what} a request", at_most=0.8, beside="valkey"
            )
    yield Target(2, "set-p64", "rate", "SET pipeline 64: speed", at_least=1.5, beside="valkey")
    yield Target(2, "get-p64", "rate", "GET pipeline 64: speed", at_least=1.0, beside="valkey")
    yield Target(2, "get-p64", "server_cpu_us", "GET pipeline 64: CPU a request", at_most=0.8, beside="valkey")
    yield Target(2, "eval-get-p16", "rate", "EVAL of one GET: speed", at_least=2.0, beside="valkey")


def _durable() -> Iterable[Target]:
    for peer in ("valkey", "redis"):
        yield Target(4, "set-sync-p1", "rate", "SET at sync, pipeline 1", at_least=1.15, beside=peer)
        yield Target(4, "set-sync-p16", "rate", "SET at sync, pipeline 16", at_least=1.5, beside=peer)
        yield Target(4, "set-interval-p16", "rate", "SET at interval, pipeline 16", at_least=1.2, beside=peer)


def _checkpoint() -> Iterable[Target]:
    for result, what in (("checkpoint-keys", "keys"), ("checkpoint-tables", "keys and rows")):
        yield Target(4, result, "kept", f"during a checkpoint, {what}: throughput kept", at_least=0.99)
        yield Target(4, result, "p99_growth", f"during a checkpoint, {what}: p99 over p99 before", at_most=3.0)
        yield Target(4, result, "memory_growth", f"during a checkpoint, {what}: memory over before", at_most=1.1)


def _procedures() -> Iterable[Target]:
    yield Target(5, "proc-one-set-beside-set-p1", "per_second", "a routine of one SET", at_least=0.9, beside="set")
    yield Target(5, "proc-one-get-beside-get-p1", "per_second", "a routine of one GET", at_least=0.9, beside="get")
    yield Target(5, "proc-set-session-beside-one-p1", "per_second", "set_session", at_least=0.8, beside="one set")
    yield Target(5, "proc-get-session-beside-one-p1", "per_second", "get_session", at_least=0.9, beside="one get")
    for name in ("one-set", "one-get", "set-session", "get-session"):
        what = f"{name.replace('-', '_')} by FCALL, pipeline 16"
        yield Target(5, f"proc-{name}-p16", "rate", what, at_least=2.0, beside="valkey")


TARGETS: tuple[Target, ...] = (
    *_beside_valkey(),
    *_durable(),
    *_checkpoint(),
    *_procedures(),
    Target(
        4, "restart", "items_per_s", "restart: keys and rows a second", at_least=2.0, beside=restart.beside("redis")
    ),
    Target(2, "select-p16", "rate", "SELECT by key: requests/s", at_least=500_000),
    Target(3, "sql-point", "per_second", "SELECT by key in one process", at_least=2.0, beside="sqlite"),
    Target(3, "sql-insert", "per_second", "INSERT by executemany", at_least=1.5, beside="sqlite"),
    Target(3, "sql-update", "per_second", "UPDATE by key in one process", at_least=2.0, beside="sqlite"),
    Target(3, "sql-in", "per_second", "16 keys in one IN, rows/s", at_least=2.0, beside="sqlite"),
    Target(3, "sql-group", "per_second", "GROUP BY", at_least=1.0, beside="sqlite"),
    Target(3, "sql-join", "per_second", "join by key", at_least=1.0, beside="sqlite"),
    Target(3, "sql-join-hash", "per_second", "join without index", at_least=1.0, beside="sqlite"),
    Target(3, "select-beside-get", "per_second", "SELECT by key, pipeline 1", at_least=0.9, beside="get"),
    Target(
        3, "in-beside-one-p1", "per_second", "16 keys in one IN over the wire, rows", at_least=6.0, beside="one key"
    ),
    Target(3, "select-p64", "rate", "SELECT by key at pipeline 64, requests/s", at_least=1_000_000),
    Target(2, "key-memory", "used_bytes", "memory of a key (used_memory)", at_most=1.0, beside="valkey"),
    Target(2, "key-memory", "used_bytes", "memory of a key, bytes", at_most=80.0),
    Target(2, "key-memory", "rss_bytes", "memory of a key (RSS)", at_most=1.0, beside="valkey"),
    Target(2, "row-memory", "used_bytes", "memory of a row (used_memory)", at_most=1.0, beside="sqlite"),
    Target(2, "row-memory", "used_bytes", "memory of a row, bytes", at_most=33.0),
    Target(2, "growth", "longest_work_ms", "longest growth step, ms", at_most=10.0),
)


def judge(results: Iterable[Result], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """A verdict for each target whose result is among these."""
    by_name = {result.name: result for result in results}
    return [_judge(by_name[target.result], target) for target in targets if target.result in by_name]


def _judge(result: Result, target: Target) -> Verdict:
    figure = _figure(result, target)
    if figure is None:
        missing = [OURS] + ([target.beside] if target.beside else [])
        failed = [name for name in missing if name in result.failed]
        return Verdict(
            target, None, None, f"{failed[0]} failed" if failed else f"no figures of {' and '.join(missing)}"
        )
    met = target.holds(figure.value)
    agree = target.holds(figure.low) == target.holds(figure.high)
    return Verdict(target, met, figure, "" if agree else "the rounds disagree")


def _figure(result: Result, target: Target) -> Ratio | None:
    if target.beside is not None:
        return result.ratio(target.metric, OURS, target.beside)
    figures = result.figures.get(OURS, {}).get(target.metric)
    middle = result.typical(OURS, target.metric)
    if not figures or middle is None:
        return None
    return Ratio(middle, min(figures), max(figures))
