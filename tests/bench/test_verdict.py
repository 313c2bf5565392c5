"""Medians, ratios and verdicts, from figures that are given."""

import pytest

from peryton.bench.runner import Result
from peryton.bench.verdict import TARGETS, Target, judge

SPEED = Target(2, "w", "rate", "speed", at_least=1.5, beside="valkey")


def result(ours=(), theirs=(), metric="rate"):
    made = Result("w", "a workload")
    for contender, figures in (("peryton", ours), ("valkey", theirs)):
        for figure in figures:
            made.add(contender, {metric: figure})
    return made


def test_ratio_of_medians_with_the_range_of_the_rounds():
    ratio = result([100, 210, 150], [100, 100, 50]).ratio("rate", "peryton", "valkey")
    assert (ratio.value, ratio.low, ratio.high) == (1.5, 1.0, 3.0)


def test_user_cpu_is_averaged_because_it_is_sampled():
    assert result([0, 0, 3], metric="server_user_us").typical("peryton", "server_user_us") == 1
    assert result([0, 0, 3]).typical("peryton", "rate") == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "met", "remark"),
    [
        ([160, 170, 180], [100, 100, 100], True, ""),
        ([120, 140, 130], [100, 100, 100], False, ""),
        ([140, 160, 170], [100, 100, 100], True, "the rounds disagree"),
        ([], [100], None, "no figures of peryton and valkey"),
    ],
)
def test_verdicts(ours, theirs, met, remark):
    [verdict] = judge([result(ours, theirs)], [SPEED])
    assert (verdict.met, verdict.remark) == (met, remark)


def test_a_failed_server_is_named():
    failed = result([], [100])
    failed.fail("peryton", "unknown command")
    [verdict] = judge([failed], [SPEED])
    assert (verdict.met, verdict.remark) == (None, "peryton failed")


def test_a_figure_by_itself():
    step = Target(2, "w", "longest_work_ms", "longest step", at_most=10.0)
    [verdict] = judge([result([25, 7, 8], metric="longest_work_ms")], [step])
    assert (verdict.met, verdict.remark) == (True, "the rounds disagree")
    assert (verdict.figure.value, verdict.figure.low, verdict.figure.high) == (8, 7, 25)


def test_targets_are_bounded_on_one_side():
    assert all((target.at_least is None) != (target.at_most is None) for target in TARGETS)
