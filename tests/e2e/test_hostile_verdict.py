"""What a soak with a hostile namespace must hold: each bar that is missed is named, and told in the report."""

import argparse
import dataclasses
from collections.abc import Mapping

import pytest

from cotenant_e2e import components, installation
from cotenant_e2e.commands import soak_hostile
from cotenant_e2e.hostile import limits, measured, report, soak, verdict
from cotenant_e2e.hostile.honest import Wait

LIMITS = dict.fromkeys(soak.OURS, 1024.0)


def waits(*seconds: float, failed: int = 0) -> measured.Waits:
    found = tuple(Wait(stored=0.1, made=0.2, free=0.5, bound=one) for one in seconds)
    return measured.Waits(dljobs=found, plain=found, failed=failed)


GOOD = measured.Soaked(
    minutes=60,
    rate=5,
    alone=waits(1.0, 1.0, 2.0),
    beside=waits(1.5, 2.0, 9.0),
    sent=measured.Sent(taken={"DLJob": 7}, refused={}, unanswered=3, halves=4),
    peaks_mib={**dict.fromkeys(soak.OURS, 300.0), components.API_SERVER: 5000.0},
    limits_mib=LIMITS,
    ends={**dict.fromkeys(soak.OURS, 0), components.API_SERVER: 0},
)


def with_peak(name: str, mib: float) -> measured.Soaked:
    return dataclasses.replace(GOOD, peaks_mib={**GOOD.peaks_mib, name: mib})


def test_a_soak_that_holds_every_bar_misses_none() -> None:
    assert verdict.missed(GOOD) == []
    assert "Held: no program of ours ended" in "\n".join(report.lines(GOOD, cores=2))


@pytest.mark.parametrize("name", soak.OURS)
def test_each_of_our_programs_is_held_to_its_limit(name: str) -> None:
    (*_, message) = verdict.missed(with_peak(name, 1025))[:1]
    assert message == f"{name}: held 1025 MiB; the limit of the chart is 1024 MiB"


@pytest.mark.parametrize("name", soak.OURS)
def test_none_of_our_programs_may_end(name: str) -> None:
    found = dataclasses.replace(GOOD, ends={**GOOD.ends, name: 2})
    assert verdict.missed(found) == [f"{name}: ended 2 times; it must not end"]


@pytest.mark.parametrize("name", soak.OURS)
def test_a_program_that_was_never_weighed_is_no_program_of_no_weight(name: str) -> None:
    assert verdict.missed(with_peak(name, 0)) == [f"{name}: was never weighed: see its log"]


def test_the_operator_is_held_to_less_than_its_limit() -> None:
    assert verdict.missed(with_peak(installation.OPERATOR, 400)) == []
    assert verdict.missed(with_peak(installation.OPERATOR, 401)) == [
        "cotenant-operator: held 401 MiB; at most 400 MiB are allowed"
    ]


@pytest.mark.parametrize(("beside", "told"), [((2.1, 2.1, 2.1), "2.10"), ((), "inf")])
def test_the_median_honest_job_waits_at_most_twice_as_long(beside: tuple[float, ...], told: str) -> None:
    found = dataclasses.replace(GOOD, beside=waits(*beside))
    assert verdict.missed(found) == [
        f"honest DLJobs: the median waited {told} times as long; at most 2 times is allowed"
    ]


@pytest.mark.parametrize(("alone", "beside"), [(1, 0), (0, 1)])
def test_every_honest_job_is_bound(alone: int, beside: int) -> None:
    found = dataclasses.replace(GOOD, alone=waits(1.0, failed=alone), beside=waits(1.0, failed=beside))
    assert verdict.missed(found) == ["honest DLJobs: 1 were not bound within two minutes; all must be"]


def test_what_the_cluster_itself_holds_is_no_bar_of_ours() -> None:
    ends = {**GOOD.ends, components.API_SERVER: 1}
    assert verdict.missed(dataclasses.replace(with_peak(components.API_SERVER, 1e6), ends=ends)) == []


def test_the_limits_are_those_of_the_chart() -> None:
    assert limits.of_chart() == {
        installation.OPERATOR: 1024,
        installation.EXTENDER: 2048,
        components.COTENANT_SCHEDULER: 4096,
    }


def test_the_report_says_how_much_longer_the_honest_waited_and_what_was_missed() -> None:
    found = dataclasses.replace(with_peak(installation.OPERATOR, 401.4), beside=waits(1.5, 1.5, 9.0, failed=1))
    text = "\n".join(report.lines(found, cores=2))
    assert "| DLJobs alone | 3 | 1.00 | 2.00 | 2.00 |" in text
    assert "| Jobs of Kubernetes beside a hostile namespace | 3 | 1.50 | 9.00 | 9.00 |" in text
    assert "| DLJobs beside a hostile namespace | 0.10 | 0.10 | 0.30 | 8.50 |" in text
    assert "| cotenant-operator | 401 | 1024 | 0 |" in text
    assert "| kube-apiserver | 5000 |  | 0 |" in text
    assert "was 1.50 times as long; 1 honest DLJobs and 0 Jobs of Kubernetes were not bound" in text
    assert "sent 7 DLJob; refused were none; 3 were not answered" in text
    assert "**Missed**: cotenant-operator: held 401 MiB" in text


def test_a_report_of_no_honest_job_at_all_is_written() -> None:
    assert "| DLJobs alone | 0 | | | |" in report.lines(dataclasses.replace(GOOD, alone=waits()), cores=2)


@pytest.mark.parametrize(("peaks", "code"), [({}, 0), ({installation.OPERATOR: 401.0}, 1)])
def test_the_command_fails_where_a_bar_was_missed(
    peaks: Mapping[str, float], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dataclasses.replace(GOOD, peaks_mib={**GOOD.peaks_mib, **peaks})
    assert soak_hostile.show(argparse.Namespace(json=False, write=None), found) == code
    assert ("missed: cotenant-operator" in capsys.readouterr().err) == bool(code)
