"""The generator against the server that does nothing."""

import os

import pytest

from peryton import _core
from peryton.bench.load import Load, send


@pytest.fixture
def responder():
    responder = _core.Responder(reply="$-1\r\n")
    yield responder
    responder.stop()


def test_counts_requests_replies_and_nulls(responder):
    load = Load((("GET", "k:%n%"), ("GET", b"x")), ("n=sequence:1",), connections=3, pipeline=5, weights=(2, 1))
    sample = send(load, responder.port, requests=1001, pids=[os.getpid()])
    assert (sample.requests, sample.nils, sample.errors, sample.first_error) == (1001, 1001, 0, None)
    assert responder.requests == 1001


def test_figures_are_sane(responder):
    load = Load((("PING",),), connections=2, pipeline=10)
    sample = send(load, responder.port, seconds=0.2, warmup=0.05, pids=[os.getpid()], watch_cpu=True)
    metrics = sample.metrics()
    assert sample.seconds == pytest.approx(0.2, abs=0.15)
    assert metrics["rate"] > 1000
    assert 0 <= metrics["client_user_us"] <= metrics["client_cpu_us"]
    assert 0 < metrics["client_cpu_us"] <= metrics["server_cpu_us"]  # here the process is client and server
    assert 0 < metrics["p50_ms"] <= metrics["p99_ms"] <= metrics["max_ms"] == sample.slowest_ms[0][0]
    assert sample.hardest_ms[0] > 0


def test_errors_are_counted_and_the_first_is_kept():
    responder = _core.Responder(reply="-ERR no\r\n")
    sample = send(Load((("PING",),)), responder.port, requests=60)
    assert (sample.errors, sample.first_error) == (60, "ERR no")


def test_wrong_plans_and_absent_servers_are_refused(responder):
    with pytest.raises(ValueError, match="no field is named 'x'"):
        send(Load((("GET", "%x%"),)), responder.port)
    with pytest.raises(ValueError, match="name=uniform"):
        send(Load((("PING",),), ("x=normal:1",)), responder.port)
    with pytest.raises(OSError, match="no process"):
        send(Load((("PING",),)), responder.port, pids=[2**31 - 1])
    responder.stop()
    with pytest.raises(ConnectionRefusedError):
        send(Load((("PING",),)), responder.port)
