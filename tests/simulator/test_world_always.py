"""What holds in every run, whatever jobs come and whatever breaks."""

import dataclasses
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_api.names import GPUUID, HUNDREDTHS
from cotenant_simulator.engine import conditions, faults, history, interference, jobs, ways
from simulator import jobs_kit, one_run

NODES, GPUS = 2, 2
UUIDS = [f"node-{node}/{gpu}" for node in range(NODES) for gpu in range(GPUS)]
MAX_TENANTS = 3


class Case(NamedTuple):
    """A run."""

    jobs: list[jobs.Job]
    under: conditions.Conditions
    way: ways.Way
    policy: Mapping[str, Any]
    mechanism: str

    def ran(self) -> history.History:
        """The history, with spans."""
        return jobs_kit.ran(
            self.jobs,
            nodes=NODES,
            gpus=GPUS,
            way=self.way,
            mechanism=self.mechanism,
            under=self.under,
            **self.policy,
        )


@st.composite
def job(draw: st.DrawFn, number: int, *, fits: bool) -> jobs.Job:
    """Any job; where `fits`, its memory is what is predicted, and it shares a GPU with others."""
    believed_mib, percent = draw(st.integers(1, 4000)), draw(st.integers(1, 100))
    real_mib = believed_mib if fits else draw(st.integers(1, 12_000))
    real = jobs_kit.needs(percent if fits else draw(st.integers(1, 100)), memory_mib=real_mib)
    made = jobs_kit.job(
        f"j{number}",
        percent,
        seconds=float(draw(st.integers(1, 3000))),
        arrives=float(draw(st.integers(0, 2000))),
        real=real,
        replicas=draw(st.sampled_from((1, 1, 1, 2, 3))),
        gpus=1 if fits else draw(st.sampled_from((1, 1, 1, 2))),
        priority=draw(st.sampled_from((0, 0, 5))),
        checkpoint_seconds=draw(st.sampled_from((None, 50.0, 333.0))),
        minimum_run_seconds=draw(st.sampled_from((0, 0, 100))),
    )
    predicted = jobs_kit.believed(jobs_kit.needs(percent, memory_mib=believed_mib), name=made.name)
    known = draw(st.sampled_from((predicted, predicted, None)))
    return dataclasses.replace(made, kind=dataclasses.replace(made.kind, predicted=known))


@st.composite
def fault(draw: st.DrawFn) -> faults.Fault:
    """Any."""
    what = draw(st.sampled_from(list(faults.What)))
    return faults.Fault(
        seconds=float(draw(st.integers(0, 5000))),
        what=what,
        where="node-0" if what is faults.What.NODE else draw(st.sampled_from(UUIDS)),
        repair_seconds=float(draw(st.integers(0, 3000))),
        lot=draw(st.sampled_from((0.0, 0.5, 0.99))),
    )


@st.composite
def cases(draw: st.DrawFn, *, fits: bool = False) -> Case:
    """Any run."""
    count = draw(st.integers(1, 8))
    under = conditions.Conditions(
        faults=draw(st.lists(fault(), max_size=4)),
        bind_seconds=draw(st.sampled_from((0.0, 0.0, 7.0))),
        start_seconds=draw(st.sampled_from((0.0, 20.0))),
        spans=True,
    )
    placement = draw(st.sampled_from(("FirstFit", "BestFit", "Spread", "Reactive")))
    others: list[ways.Way] = [ways.Predicted(), ways.Hybrid(), ways.Slot(), ways.Reactive()]
    missing = draw(st.sampled_from(("Exclusive", "Profile") if fits else ("Exclusive", "Profile", "Hold")))
    return Case(
        [draw(job(number, fits=fits)) for number in range(count)],
        under,
        ways.Predicted() if fits else draw(st.sampled_from(others)),
        {"placement": placement, "queue": {"onMissingPrediction": missing}, "maxTenantsPerGPU": MAX_TENANTS},
        interference.MPS if fits else draw(st.sampled_from((interference.MPS, "TimeSlicing"))),
    )


def at_once(spans: list[history.Span]) -> Mapping[GPUUID, list[list[history.Span]]]:
    """By GPU, who was there together; one who comes when another goes does not meet it."""
    by_gpu: defaultdict[GPUUID, list[history.Span]] = defaultdict(list)
    for span in spans:
        by_gpu[span.gpu].append(span)
    return {
        gpu: [[other for other in here if other.start <= span.start < other.end] for span in here]
        for gpu, here in by_gpu.items()
    }


@settings(max_examples=50, deadline=None)
@given(cases())
def test_no_gpu_is_ever_overbooked(case: Case) -> None:
    for together in at_once(case.ran().spans or []).values():
        for here in together:
            assert sum(span.share for span in here) <= HUNDREDTHS
            assert len(here) <= MAX_TENANTS
            assert len(here) == 1 or sum(span.booked.memory_mib for span in here) <= jobs_kit.GPU_MIB


@settings(max_examples=50, deadline=None)
@given(cases())
def test_every_job_ends_or_says_why(case: Case) -> None:
    for life in case.ran().lives:
        assert (life.ended is None) == bool(life.why)
        assert life.ended is not None or life.why.partition(":")[2]


@settings(max_examples=50, deadline=None)
@given(cases())
def test_no_job_is_faster_than_alone_nor_keeps_more_than_it_did(case: Case) -> None:
    found = case.ran()
    for one, life in zip(case.jobs, found.lives, strict=True):
        assert life.lost >= 0
        assert life.slowest <= 1
        if life.ended is not None:
            assert life.started is not None
            assert one.arrives <= life.started <= life.ended
            assert life.ran >= (life.alone + life.lost) * (1 - 1e-9)
    assert all(-1e-9 <= moment.utilization <= moment.occupied + 1e-9 for moment in found.moments)


@settings(max_examples=40, deadline=None)
@given(cases(fits=True))
def test_work_is_conserved_where_nobody_slows_another_down(case: Case) -> None:
    """Time on GPUs is the work, what was lost of it, and the starts; so is what the GPUs were busy with."""
    found, busy = case.ran(), 0.0
    for one, life in zip(case.jobs, found.lives, strict=True):
        assert life.ended is not None or life.why
        if life.ended is None:
            return
        starts = life.ran - life.alone - life.lost
        most = case.under.start_seconds * life.attempts
        assert -1e-6 * life.ran <= starts <= most + 1e-6 * life.ran
        real = one.kind.real[jobs_kit.MODEL].utilization.q50 / 100
        busy += (life.alone + life.lost) * real * one.replicas
    spans = zip(found.moments, found.moments[1:], strict=False)
    assert sum(now.utilization * (then.seconds - now.seconds) for now, then in spans) == pytest.approx(busy, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(cases())
def test_pods_of_a_gang_come_and_go_together(case: Case) -> None:
    stays = Counter((span.place, span.start, span.end) for span in case.ran().spans or [])
    for (place, _, _), count in stays.items():
        assert count % (case.jobs[place].replicas * case.jobs[place].gpus) == 0


@settings(max_examples=25, deadline=None)
@given(cases())
def test_same_jobs_and_faults_give_the_same_bytes(case: Case) -> None:
    assert repr(case.ran()) == repr(case.ran())


@settings(max_examples=40, deadline=None)
@given(cases())
def test_what_happened_to_each_job_adds_up_to_its_attempts(case: Case) -> None:
    found = case.ran()
    for life in found.lives:
        ends = life.out_of_memory + life.evictions + life.faults + life.measured + (life.ended is not None)
        # An attempt may end before all its pods are bound, and then counts as none.
        assert life.attempts <= ends
    assert found.counts.done + sum(found.reasons.values()) == len(found.lives)


def test_run_with_everything_in_it_has_everything_in_it() -> None:
    found = one_run.ran(1)
    assert found.counts.done == one_run.JOBS
    assert min(found.counts.out_of_memory, found.counts.evictions, found.counts.faults, found.counts.measured) > 0


def test_history_does_not_hang_on_how_a_process_hashes() -> None:
    root = Path(__file__).parents[1]
    digests = {
        subprocess.run(
            [sys.executable, "-m", "simulator.one_run"],
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
