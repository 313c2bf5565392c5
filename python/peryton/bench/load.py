"""A load on a server, and what one measurement of it gives.

The generator itself is native (`peryton._core.load`): it patches a few digits in a prepared request and counts replies
without reading them, so that the client's share of the cost is small, known and the same for every server.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from peryton import _core

Command = tuple[str | bytes, ...]


@dataclass(frozen=True)
class Load:
    """What to send and how: commands with `%field%` placeholders over connections that pipeline."""

    commands: tuple[Command, ...]
    fields: tuple[str, ...] = ()
    connections: int = 50
    pipeline: int = 1
    #: How often each command is sent, relative to the others; empty: all alike.
    weights: tuple[int, ...] = ()

    def weighted(self) -> list[tuple[int, Command]]:
        """The commands as the generator takes them."""
        weights = self.weights or (1,) * len(self.commands)
        return list(zip(weights, self.commands, strict=True))


@dataclass(frozen=True)
class Cpu:
    """CPU seconds: in the program's own code, and with the kernel's on its behalf."""

    user_s: float
    total_s: float


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    requests: int
    errors: int
    nils: int
    first_error: str | None
    seconds: float
    client: Cpu
    server: Cpu
    #: CPU time of all others on the machine meanwhile.
    others_s: float
    #: CPU time that the host of a virtual machine took away meanwhile.
    stolen_s: float
    #: From sending a batch to its last reply: milliseconds by percentile.
    batch_ms: dict[float, float]
    #: The longest such times, with the number of replies that had come by then.
    slowest_ms: list[tuple[float, int]]
    #: The longest that the server worked during one batch (see `Report::hardest`), with that number, if it was watched.
    hardest_ms: tuple[float, int] | None

    def metrics(self) -> dict[str, float]:
        """The figures a result keeps of it."""
        each_us = 1e6 / max(self.requests, 1)
        return {
            "rate": self.requests / self.seconds,
            "server_user_us": self.server.user_s * each_us,
            "server_cpu_us": self.server.total_s * each_us,
            "client_user_us": self.client.user_s * each_us,
            "client_cpu_us": self.client.total_s * each_us,
            "p50_ms": self.batch_ms[50.0],
            "p99_ms": self.batch_ms[99.0],
            "max_ms": self.batch_ms[100.0],
            "server_cores": self.server.total_s / self.seconds,
            "client_cores": self.client.total_s / self.seconds,
            "other_cores": (self.others_s + self.stolen_s) / self.seconds,
        }


def send(
    load: Load,
    port: int,
    *,
    requests: int | None = None,
    seconds: float = 1.0,
    warmup: float = 0.0,
    pids: Sequence[int] = (),
    watch_cpu: bool = False,
    seed: int = 1,
) -> Sample:
    """Sends a load to a server on this machine: `requests` in all, or for `seconds` after a warm-up."""
    report = _core.load(
        "127.0.0.1",
        port,
        load.weighted(),
        load.fields,
        connections=load.connections,
        pipeline=load.pipeline,
        requests=requests,
        seconds=seconds,
        warmup=warmup,
        pids=pids,
        watch_cpu=watch_cpu,
        seed=seed,
    )
    hardest = report["hardest"]
    return Sample(
        requests=report["requests"],
        errors=report["errors"],
        nils=report["nils"],
        first_error=report["first_error"],
        seconds=report["seconds"],
        client=Cpu(*report["client_cpu_s"]),
        server=Cpu(*report["server_cpu_s"]),
        others_s=report["others_cpu_s"],
        stolen_s=report["stolen_cpu_s"],
        batch_ms={percent: ns / 1e6 for percent, ns in report["batch_percentiles_ns"]},
        slowest_ms=[(ns / 1e6, replies) for ns, replies in report["slowest"]],
        hardest_ms=None if hardest is None else (hardest[0] / 1e6, hardest[1]),
    )
