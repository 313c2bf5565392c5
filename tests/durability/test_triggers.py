"""Triggers and schedules of a server that is killed: they are there when it starts again, and fire."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.durability.serving import serve

LIBRARY = """#!lua name=kept
redis.register_function('copy', function(event) redis.call('SET', 'copy:' .. event.new.id, event.new.name) end)
redis.register_function('note', function(event) redis.call('INCR', 'noted') end)
redis.register_function('tick', function() redis.call('INCR', 'ticks') end)
"""


@pytest.mark.parametrize("checkpoint", [False, True], ids=["log", "checkpoint"])
def test_definitions_survive_a_kill(tmp_path: Path, checkpoint: bool) -> None:
    with serve(tmp_path, "sync") as server, server.connect() as client:
        client("FUNCTION", "LOAD", LIBRARY)
        client("SQL", "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        client("SQL", "CREATE TRIGGER copy AFTER INSERT ON t WHEN (NEW.id > 1) CALL copy")
        client("SQL", "CREATE TRIGGER note ON KEYS 'copy:*' FOR 'set' CALL note")
        client("SQL", "CREATE SCHEDULE tick EVERY 1 DAY CALL tick")
        client("SQL", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        if checkpoint:
            client("SAVE")
        client("SQL", "INSERT INTO t VALUES (3, 'c')")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with serve(tmp_path, "sync") as server, server.connect() as client:
        # What they did is not done again.
        assert client("GET", "noted") == b"2"
        assert client("EXISTS", "copy:1") == 0
        assert (client("GET", "copy:2"), client("GET", "copy:3")) == (b"b", b"c")
        client("SQL", "INSERT INTO t VALUES (4, 'd')")
        assert (client("GET", "copy:4"), client("GET", "noted")) == (b"d", b"3")
        schedules = client("SQL", "SELECT schedule_name, interval_ms FROM information_schema.schedules")
        assert schedules[1] == [b"tick", 86_400_000]
