"""A server whose store is still being opened: it says so, and keeps who has come."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import redis

import peryton

REFUSAL = b"-LOADING Peryton is loading the dataset in memory\r\n"


def ask(connection: socket.socket, request: bytes, end: bytes) -> bytes:
    connection.sendall(request)
    answer = b""
    while not answer.endswith(end):
        piece = connection.recv(65536)
        assert piece, answer
        answer += piece
    return answer


def test_whoever_comes_too_early_is_told_and_stays(tmp_path: Path) -> None:
    with peryton.open(tmp_path) as db:
        db.command("SET", "key", "value" * 1000)
        db.command("SAVE")
    door = peryton.Loading()
    steps: list[tuple[int, int]] = []
    with socket.create_connection(("127.0.0.1", door.port), 30) as early:

        def tell(_phase: str, done: int, total: int) -> None:
            door.tell(done, total)
            steps.append((done, total))
            assert ask(early, b"GET key\r\n", b"\r\n") == REFUSAL
            info = ask(early, b"INFO persistence\r\n", b"\r\n\r\n").decode()
            assert "loading:1\r\n" in info
            assert f"loading_total_bytes:{total}\r\nloading_loaded_bytes:{done}\r\n" in info

        with peryton.open(tmp_path, progress=tell) as db:
            assert steps
            assert all(done == total > 0 for done, total in steps)
            server = db.serve_at(door)
            assert door.port == 0
            assert ask(early, b"GET key\r\n", b"value\r\n") == b"$5000\r\n" + b"value" * 1000 + b"\r\n"
            assert b"\nloading:0\r\n" in ask(early, b"INFO persistence\r\n", b"\r\n\r\n")
            assert redis.Redis(port=server.port).get("key") == b"value" * 1000
            with pytest.raises(peryton.PerytonError, match="a store has it already"):
                db.serve_at(door)


def test_clients_see_an_error_of_their_own() -> None:
    door = peryton.Loading()
    with pytest.raises(peryton.LoadingError):
        peryton.connect(f"peryton://127.0.0.1:{door.port}").command("PING")
    with pytest.raises(redis.exceptions.BusyLoadingError):
        redis.Redis(port=door.port).get("key")
    port = door.port
    door.close()
    door.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 1)


def test_a_taken_port_is_known_before_anything_is_read() -> None:
    door = peryton.Loading()
    with pytest.raises(peryton.PerytonError, match="cannot listen on 127"):
        peryton.Loading("127.0.0.1", door.port)
    door.close()
