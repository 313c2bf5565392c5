"""A server killed at random moments, again and again: what it has acknowledged is there when it starts again.

SIGKILL takes the process and leaves the machine: what a failing disk or a power cut does is judged in the core's crash
tests, on simulated files.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.durability.serving import serve
from tests.durability.workload import Client, Model, Workload
from tests.support.resp import Connection
from tests.support.servers import Server

CLIENTS = 6
LONG = bool(os.environ.get("PERYTON_LONG"))
ROUNDS = 400 if LONG else 24
SEED = int(os.environ.get("PERYTON_SEED", "0")) or random.SystemRandom().randrange(1 << 32)

# Rounds take as long as they take; 0 stands for no limit.
pytestmark = [pytest.mark.timeout(0)] if LONG else []


@pytest.mark.parametrize("depth", [1, 12], ids=["one at a time", "pipelined"])
def test_what_was_acknowledged_survives_being_killed(tmp_path: Path, depth: int) -> None:
    print("PERYTON_SEED", SEED)
    chance = random.Random(SEED)
    clients = [Client(Workload(number, SEED)) for number in range(CLIENTS)]
    with serve(tmp_path, "sync") as server, server.connect() as admin:
        for client in clients:
            for request in client.workload.prepare():
                admin(*request)
            client.begin(Model())
        kill_under_load(server, admin, clients, depth, chance)
    for _ in range(ROUNDS):
        with serve(tmp_path, "sync") as server, server.connect() as admin:
            for client in clients:
                found = client.workload.observe(admin)
                client.judge(found)
                client.begin(found)
            kill_under_load(server, admin, clients, depth, chance)


def kill_under_load(
    server: Server, admin: Connection, clients: list[Client], depth: int, chance: random.Random
) -> None:
    """Lets the clients loose, and kills the server in the middle of it, sometimes in the middle of a checkpoint."""
    threads = [
        threading.Thread(target=client.run, args=(server.connect(), chance.randint(1, depth))) for client in clients
    ]
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.0, 0.05))
    if chance.random() < 0.4:
        admin("BGSAVE")
        time.sleep(chance.uniform(0.0, 0.1))
    server.process.send_signal(signal.SIGKILL)
    for thread in threads:
        thread.join()
