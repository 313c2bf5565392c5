"""What Redis 7 has and Peryton has not yet: said here once, and shown by a skipped test for each.

A line leaves the list with the change that brings what it names.
"""

from __future__ import annotations

NOT_YET = {
    "client|pause": "holding clients up",
    "client|tracking": "client-side caching",
    "client|unpause": "holding clients up",
    "dump": "serialised values",
    "geo": "geographic indexes",
    "latency": "the latency monitor",
    "migrate": "moving keys to another server",
    "monitor": "the stream of all requests",
    "pf": "HyperLogLog",
    "replicaof": "replicas",
    "restore": "serialised values",
    "x": "streams",
}
"""The command, ``container|sub``, or the letters that a family's names begin with; and what it is about."""

FAMILIES_NOT_YET = ("geo", "pf", "x")


def is_not_yet(name: str) -> bool:
    """Whether this command is still to come, given as COMMAND LIST gives it."""
    return name in NOT_YET or name == "restore-asking" or name.startswith(FAMILIES_NOT_YET)
