"""Random sequences of commands, the same to Redis and to the peer, with the same replies and keyspace.

Environment:

``PERYTON_SEQUENCES``  how many sequences for each family and protocol (default 300, and 3000 in the long form)
``PERYTON_SEED``       the seed of the first (default 1); a failure names its own seed
``PERYTON_ENCODINGS``  0 leaves the names of encodings out of the comparison
``PERYTON_KNOWN``      if set, commands that the peer does not know yet are left out
"""

from __future__ import annotations

import os

import pytest

from tests.commands.differential import Difference, Pair
from tests.commands.generators import FAMILIES
from tests.commands.generators.family import Family, Sequence_
from tests.commands.not_yet import FAMILIES_NOT_YET, NOT_YET, is_not_yet
from tests.commands.shrink import shrink
from tests.support.resp import Error
from tests.support.servers import Server

SEQUENCES = int(os.environ.get("PERYTON_SEQUENCES", "3000" if os.environ.get("PERYTON_LONG") else "300"))
FIRST_SEED = int(os.environ.get("PERYTON_SEED", "1"))

# A test goes on after a failure, to report a few that look different at once.
KINDS_MAX = 3
FAILURES_MAX = 8


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_same_replies_and_same_keyspace(family: Family, protocol: int, pairs: dict[int, Pair], peer: Server) -> None:
    pair = pairs[protocol]
    only = _known_commands(peer, family) if os.environ.get("PERYTON_KNOWN") else None
    reports: dict[str, str] = {}
    failed = 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        sequence = family.sequence(seed, only)
        if first := pair.run(family, sequence):
            kind, report = _report(pair, family, seed, sequence, first)
            reports.setdefault(kind, report)
            failed += 1
            # Behind a server that hangs every further sequence would wait in vain.
            if len(reports) >= KINDS_MAX or failed >= FAILURES_MAX or first.broke:
                break
    if reports:
        pytest.fail("\n\n".join(reports.values()), pytrace=False)


# Refused inside a transaction: they change keys that they do not name, or are a transaction of their own.
NOT_INSIDE = {
    b"flushall",
    b"flushdb",
    b"swapdb",
    b"move",
    b"multi",
    b"exec",
    b"discard",
    b"watch",
    b"unwatch",
    b"reset",
}
INSIDE = ("string", "bitmap", "hash", "list", "set", "zset", "key", "expire", "sort", "script")


def _fits_inside(command: list[bytes]) -> bool:
    words = [argument.lower() for argument in command]
    # Of a script's command the words are arguments. Where one is a value by chance, the sequence is only shorter.
    return NOT_INSIDE.isdisjoint(words) and not (b"copy" in words and b"db" in words)


@pytest.mark.parametrize("name", INSIDE)
def test_the_same_inside_a_transaction(name: str, pairs: dict[int, Pair]) -> None:
    family, pair = FAMILIES[name], pairs[3]
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        sequence = [step for step in family.sequence(seed) if all(map(_fits_inside, step))]
        at = seed % (sum(map(len, sequence)) + 1)
        if pair.run(family, sequence, at):
            small = shrink(sequence, lambda candidate: pair.run(family, candidate, 0) is not None)
            difference = pair.run(family, small, 0) or pair.run(family, sequence, at)
            pytest.fail(f"family {name}, seed {seed}, BEGIN before command {at}: {difference}", pytrace=False)


def _report(pair: Pair, family: Family, seed: int, sequence: Sequence_, first: Difference) -> tuple[str, str]:
    """The kind of the difference, and all that one needs to see and repeat it."""
    small = shrink(sequence, lambda candidate: pair.run(family, candidate) is not None)
    difference = pair.run(family, small)
    if difference is None:
        return "unsteady", f"family {family.name}, seed {seed}: once, but not again, {first}"
    replay = f"PERYTON_SEED={seed} PERYTON_SEQUENCES=1 pytest -k '{family.name}-resp{pair.protocol}'"
    return difference.kind, f"{replay}\n(shrunk from {len(sequence)} to {len(small)} steps) {difference}"


def _known_commands(server: Server, family: Family) -> set[str]:
    """The commands of all tables that the server does not call unknown."""
    words = {name.split("|")[0] for other in FAMILIES.values() for name in other.names}
    with server.connect() as connection:
        replies = {word: connection(word) for word in sorted(words - {"reset", "quit", "subscribe", "monitor"})}
    unknown = {
        word for word, reply in replies.items() if isinstance(reply, Error) and reply.startswith(b"ERR unknown command")
    }
    return words - unknown


@pytest.mark.parametrize("category", ["string", "bitmap", "hash", "list", "set", "sortedset", "transaction", "pubsub"])
def test_every_command_of_the_category_is_drawn(category: str, oracle: Server) -> None:
    with oracle.connect() as connection:
        names = connection("COMMAND", "LIST", "FILTERBY", "ACLCAT", category)
    ours = {name for family in FAMILIES.values() for name in family.names}
    assert {name for name in map(bytes.decode, names) if not is_not_yet(name)} - ours == set()


def test_every_command_on_keys_is_drawn(oracle: Server) -> None:
    with oracle.connect() as connection:
        names = connection("COMMAND", "LIST", "FILTERBY", "ACLCAT", "keyspace")
    ours = {name for family in FAMILIES.values() for name in family.names}
    assert {name for name in map(bytes.decode, names) if not is_not_yet(name)} - ours == set()


@pytest.mark.parametrize("name", NOT_YET)
def test_what_is_still_to_come(name: str, peer: Server) -> None:
    with peer.connect() as connection:
        known = [bytes(word).decode() for word in connection("COMMAND", "LIST")]
    here = [word for word in known if (word.startswith(name) if name in FAMILIES_NOT_YET else word == name)]
    assert here == [], "it is there: take it off the list in not_yet.py"
    pytest.skip(f"not yet: {NOT_YET[name]}")
