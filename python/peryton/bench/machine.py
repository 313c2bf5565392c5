"""The machine: its facts, a process's memory, and which core runs what."""

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path


def facts() -> dict[str, object]:
    """What a reader must know of the machine to judge the figures."""
    return {
        "cpu": _first("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": int((_first("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _first(path: str, name: str) -> str | None:
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None


def busy_cores(seconds: float) -> float:
    """Cores that are busy just now, watched for a moment."""
    before = _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


def _busy_ticks() -> int:
    with contextlib.suppress(OSError):
        user, nice, system, _idle, _wait, irq, softirq, *_ = Path("/proc/stat").read_text().split()[1:9]
        return sum(map(int, (user, nice, system, irq, softirq)))
    return 0


def load_average() -> float:
    """Runnable threads over the last minute."""
    return os.getloadavg()[0]


def rss_bytes(pid: int) -> int:
    """Memory of a process that is in RAM."""
    return int((_first(f"/proc/{pid}/status", "VmRSS") or "0 kB").split()[0]) * 1024


def reset_peak(pid: int) -> None:
    """Begins anew to watch a process's highest memory; where that is not allowed, it goes on from its start."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_rss_bytes(pid: int) -> int:
    """The most memory in RAM that a process has had since `reset_peak`."""
    return int((_first(f"/proc/{pid}/status", "VmHWM") or "0 kB").split()[0]) * 1024


def spare_background(pid: int, thread: str) -> None:
    """Where the bench is urgent, a process's background does not share in it: threads of that name, and children."""
    if os.sched_getscheduler(0) != os.SCHED_RR:
        return
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            is_background = thread in (task / "comm").read_text()
            policy = os.SCHED_OTHER if is_background else os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(int(task.name), policy, os.sched_param(0 if is_background else 1))


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keeps this thread, and the processes that it starts meanwhile, on one core (the first is 0); None: anywhere."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[core]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
