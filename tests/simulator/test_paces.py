"""How fast jobs have run beside those who were there."""

import json
from datetime import timedelta

import pytest

from cotenant_api import names
from cotenant_predictor.colocation import speeds
from cotenant_simulator.cluster import cases, drawing, paces
from cotenant_simulator.engine import interference
from simulator import objects_kit as kit

MODEL = names.GPUModel(kit.MODEL)
MEMORY = {MODEL: kit.GPU_MIB}


def held(name: str, percent: float, *, started: float, finished: float | None, gpu: str = "GPU-n1-0") -> kit.Object:
    """A pod that had all threads of a GPU; times in minutes before the snapshot."""
    pod = kit.predicted(name, percent, created=started, started=started, finished=finished)
    booked = {"uuid": gpu, "share": round(percent), "activeThreadPercentage": 100, "memoryMiB": 4000}
    placement = {"v": 1, "podUID": f"uid-{name}", "node": "n1", "container": "main", "policyGeneration": 1}
    text = json.dumps(placement | {"backend": "MPS", "gpus": [booked]})
    pod["metadata"]["annotations"][names.PLACEMENT] = text
    return pod


def found(*pods: kit.Object) -> tuple[cases.Case, ...]:
    model = interference.Interference(speeds.SpeedModel(), interference.MPS)
    return paces.told(cases.of(kit.packing(pods)), MEMORY, model, until=kit.NOW)


def told(*pods: kit.Object) -> list[float]:
    return [case.pace for case in found(*pods)]


def test_jobs_that_filled_a_gpu_together_ran_as_fast_as_the_model_says_while_they_did() -> None:
    both, first = told(held("a", 100, started=60, finished=40), held("b", 100, started=50, finished=40))
    # Each has half of the SMs while both are there: all of b's run, and half of a's.
    assert both == pytest.approx(0.75)
    assert first == pytest.approx(0.5)


def test_a_job_alone_or_of_which_nothing_is_known_ran_at_its_own_speed() -> None:
    other = held("b", 100, started=60, finished=None, gpu="GPU-n1-1")
    unknown = kit.pod("c", share=100, started=60)
    assert told(held("a", 100, started=60, finished=40), other, unknown) == [1.0, 1.0, 1.0]


def test_a_run_time_beside_others_is_shorter_alone() -> None:
    cases_found = found(held("a", 100, started=60, finished=40), held("b", 100, started=60, finished=40))
    window = drawing.Window(begin=kit.NOW - timedelta(hours=2), taken=kit.NOW)
    drawn = drawing.drawn(cases_found, MEMORY, window, seed=0)
    assert [job.seconds[MODEL] for job in drawn] == [pytest.approx(600), pytest.approx(600)]
