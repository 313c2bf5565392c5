"""The generator against the server that does nothing."""

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor

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


def test_a_rate_is_kept_and_its_times_count_from_the_timetable(responder):
    load = Load((("PING",),), connections=4, rate=10_000, slot_s=0.05)
    sample = send(load, responder.port, seconds=0.3, warmup=0.1, pids=[os.getpid()])
    paced = sample.paced
    assert (sample.requests, paced.sent, responder.requests) == (3000, 3000, 4000)
    assert sample.metrics()["rate"] <= 10_001
    assert sum(answered for answered, _ in paced.slots) == 3000
    assert max(ms for _, ms in paced.slots) == sample.batch_ms[100.0]
    assert sample.batch_ms[50.0] >= paced.late_ms[50.0]


def test_another_thread_steers_a_load_at_a_rate(responder):
    control = _core.LoadControl()
    load = Load((("PING",),), connections=4, rate=5000)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(send, load, responder.port, seconds=3600, control=control)
        for phase in (1, 2):
            time.sleep(0.05)
            control.begin(phase)
        time.sleep(0.05)
        control.stop()
        phases = running.result().paced.phases
    assert [phase.number for phase in phases] == [0, 1, 2]
    assert sum(phase.asked for phase in phases) == responder.requests
    assert all(phase.until_s == after.from_s for phase, after in itertools.pairwise(phases))
    assert all(phase.asked > 0 and phase.ms[50.0] <= phase.ms[100.0] for phase in phases)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), 1e12])
def test_a_rate_that_makes_no_sense_is_refused(responder, rate):
    with pytest.raises(OSError, match="a rate is between"):
        send(Load((("PING",),), rate=rate), responder.port)
