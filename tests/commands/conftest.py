"""Fixtures of the command tests: the oracle, the server that it judges, and both at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.differential import Pair
from tests.support.servers import Server, start_oracle, start_peer


@pytest.fixture(scope="session")
def oracle() -> Iterator[Server]:
    """The real Redis."""
    server = start_oracle()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def peer() -> Iterator[Server]:
    """The server to be judged."""
    server = start_peer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pairs(oracle: Server, peer: Server) -> dict[int, Pair]:
    """The two servers by protocol version."""
    return {protocol: Pair(oracle, peer, protocol) for protocol in (2, 3)}
