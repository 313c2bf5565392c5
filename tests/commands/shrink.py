"""Makes a failing sequence small: drops steps, then arguments, while it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.commands.compare import command_name
from tests.commands.generators.family import Sequence_

TRIALS_MAX = 600
SECONDS_MAX = 30.0
LONG_COMMAND = 8
MAY_BLOCK = ("blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "wait", "eval")

Fails = Callable[[Sequence_], bool]


def shrink(sequence: Sequence_, fails: Fails) -> Sequence_:
    """A sequence from which no single step can be dropped without its passing."""
    trials = Trials(fails)
    sequence = _drop_chunks(sequence, trials)
    for step in range(len(sequence)):
        for place, command in enumerate(sequence[step]):
            if len(command) > LONG_COMMAND and command_name(command) not in MAY_BLOCK:
                sequence = _shorten(sequence, step, place, trials)
    return sequence


class Trials:
    """Counts the runs, so that a failure is reported in bearable time."""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._left = TRIALS_MAX
        self._deadline = time.monotonic() + SECONDS_MAX

    def fails(self, sequence: Sequence_) -> bool:
        self._left -= 1
        return self._left >= 0 and time.monotonic() < self._deadline and self._fails(sequence)


def _drop_chunks(sequence: Sequence_, trials: Trials) -> Sequence_:
    size = max(1, len(sequence) // 2)
    while True:
        dropped = False
        at = 0
        while at < len(sequence):
            shorter = sequence[:at] + sequence[at + size :]
            if shorter and trials.fails(shorter):
                sequence, dropped = shorter, True
            else:
                at += size
        if size == 1 and not dropped:
            return sequence
        if not dropped or size > 1:
            size = max(1, size // 2)


def _shorten(sequence: Sequence_, step: int, place: int, trials: Trials) -> Sequence_:
    """Drop runs of arguments after the second, of even length so that pairs stay pairs."""
    command = sequence[step][place]
    size = (len(command) - 2) // 2 & ~1
    while size >= 2:
        at = 2
        while at + size <= len(command):
            shorter = command[:at] + command[at + size :]
            changed = [list(commands) for commands in sequence]
            changed[step][place] = shorter
            if trials.fails(changed):
                sequence, command = changed, shorter
            else:
                at += size
        size = size // 2 & ~1
    return sequence
