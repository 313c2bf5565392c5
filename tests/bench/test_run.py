"""The whole bench at a tiny size: it runs, and its figures are sane. How fast anything is, is not tested."""

import json
import math

import pytest
from click.testing import CliRunner

from peryton.bench import peers, restart
from peryton.bench.cli import bench
from peryton.bench.data import SMALL, fill_stock
from peryton.bench.load import Load
from peryton.bench.runner import TINY, Bench, Result, Workload
from peryton.bench.suites import SUITES
from peryton.bench.verdict import TARGETS


def run(*args):
    outcome = CliRunner().invoke(bench, ["--tiny", *args], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def figures_of(run, contender):
    return {result["name"]: result["figures"].get(contender) for result in run["results"]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    file = tmp_path_factory.mktemp("bench") / "run.json"
    output = run("--json", str(file))
    return output, json.loads(file.read_text())


def test_every_target_has_its_result(whole):
    _, found = whole
    assert {target.result for target in TARGETS} <= {result["name"] for result in found["results"]}
    assert len(found["verdicts"]) == len(TARGETS)


def test_peryton_answers_the_commands(whole):
    _, found = whole
    answered = {name for name, figures in figures_of(found, "peryton").items() if figures}
    assert answered >= {"set-p1", "get-p1", "set-p16", "get-p16", "set-p64", "get-p64", "key-memory", "growth"}


def test_peryton_answers_every_workload(whole):
    _, found = whole
    assert all(figures_of(found, "peryton").values())


def test_redis_answers_all_but_tables(whole):
    _, found = whole
    unanswered = {name for name, figures in figures_of(found, "redis").items() if not figures}
    ours_alone = {"row-memory", "wire-get-p1", "checkpoint-tables", "proc-round-trips"}
    names = figures_of(found, "peryton")
    ours_alone |= {name for name in names if name.startswith(("sql-", "select-", "in-", "python-"))}
    ours_alone |= {name for name in names if "-beside-" in name}
    assert unanswered == ours_alone


def test_figures_are_sane(whole):
    _, found = whole
    for result in found["results"]:
        for figures in result["figures"].values():
            for metric, values in figures.items():
                assert all(math.isfinite(value) for value in values), (result["name"], metric)
            if "rate" in figures:
                assert len(figures["rate"]) == TINY.rounds
                assert all(rate > 100 for rate in figures["rate"])
                assert all(cpu > 0 for cpu in figures["server_cpu_us"] + figures["client_cpu_us"])


def test_a_save_under_load_is_measured_in_its_parts(whole):
    _, found = whole
    [result] = [result for result in found["results"] if result["name"] == "checkpoint-keys"]
    assert set(result["figures"]) >= {"peryton", "redis"}
    for name, figures in result["figures"].items():
        assert all(len(values) == TINY.stock_rounds for values in figures.values()), name
        assert figures["asked_per_s"][0] > 100
        assert 0 < figures["p99_before_ms"][0] <= figures["longest_before_ms"][0]
        assert 0 < figures["p99_during_ms"][0] <= figures["longest_during_ms"][0]
        assert 0.9 < figures["memory_growth"][0] < 3
        [series] = result["series"][name]
        assert len(series["phases"]) == 3
        assert series["phases"] == sorted(series["phases"])
        assert sum(answered for answered, _ in series["slots"]) > 0


def test_a_restart_is_measured_beside_redis_with_sqlite(whole):
    _, found = whole
    figures = {result["name"]: result["figures"] for result in found["results"]}["restart"]
    assert set(figures) >= {"peryton", "redis", "sqlite", "redis + sqlite"}
    [ping], [get], [select] = (figures["peryton"][name] for name in ("ping_s", "get_s", "select_s"))
    assert 0 < ping <= get <= select
    together = figures["redis"]["get_s"][0] + figures["sqlite"]["indexes_s"][0]
    assert figures["redis + sqlite"]["select_s"] == [together]
    assert figures["redis + sqlite"]["items_per_s"] == [2 * TINY.stock / together]


def test_a_server_that_has_lost_data_over_a_restart_gets_no_figure():
    programs, _ = peers.find()
    with Bench(programs[:1], TINY) as run, run.fresh("peryton", promise="interval") as server:
        fill_stock(server, 100, lambda text: None)
        server.halt()
        result = Result("restart", "")
        with run.failing(result, "peryton"):
            restart.measure(server, 101, result, 0.0)
    assert "last key" in result.failed["peryton"]


def test_the_facts_that_make_figures_readable_are_there(whole):
    output, found = whole
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["redis"]
    assert "ceiling" in output
    assert "Targets" in output


def test_suites_are_chosen_by_name_and_listed():
    assert "SELECT" not in run("strings", "--without", "redis", "--without", "valkey")
    listed = CliRunner().invoke(bench, ["--list"]).output
    assert all(name in listed for name in SUITES)


def test_errors_in_replies_give_a_reason_and_no_figures():
    programs, _ = peers.find()
    load = Load((("GET", SMALL.key()),), SMALL.fields(10), connections=2)
    empty = Workload("get", "GET", load, b"$-1\r\n", hits=True)
    wrong = Workload("wrong", "GET", Load((("GET",),), connections=2), b"+OK\r\n")
    with Bench(programs[:1], TINY) as run:
        results = [run.throughput(empty), run.throughput(wrong)]
    assert "null" in results[0].failed["peryton"]
    assert "wrong number of arguments" in results[1].failed["peryton"]
    assert all(list(result.figures) == [peers.CEILING] for result in results)


def test_a_server_that_does_not_start_says_why():
    broken = peers.Program("broken", ("python3", "-c", "raise SystemExit('no licence')"))
    with pytest.raises(peers.StartError, match="broken ended with 1; it said: no licence"):
        peers.start(broken)
    with Bench([broken], TINY) as run:
        result = run.throughput(Workload("ping", "PING", Load((("PING",),)), b"+PONG\r\n"))
    assert "no licence" in result.failed["broken"]
