"""What a campaign does, and leaves, in what order: with an executor that only notes what it is asked."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cotenant_predictor.profiling import measured, plan, progress, sets
from cotenant_predictor.profiling.campaign import Campaign, Facts, Summary
from cotenant_predictor.profiling.executor import Settings
from cotenant_predictor.profiling.mechanisms import Mechanism
from cotenant_predictor.profiling.mps import MpsUnavailableError
from cotenant_predictor.profiling.plan import Run
from cotenant_predictor.profiling.store import Store, StoreError
from profiling.results import tenant

JOBS = sets.smoke()


class NoPool:
    """Starts nothing."""

    def has(self, seats: Sequence[Any]) -> bool:
        """Nothing needs to be started."""
        return not seats


class Notes:
    """Stands for the executor: every run goes well, but for those that `failing` names."""

    def __init__(self, failing: Mapping[str, Exception] | None = None) -> None:
        self.daemon: Any = None
        self.done: list[Run] = []
        self.refused: set[Mechanism] = set()
        self._failing = failing or {}

    def cannot(self, run: Run) -> str | None:
        """As a GPU that lets one process in."""
        return "one process" if run.mechanism in self.refused else None

    def seats(self, run: Run, _: Mapping[str, measured.Alone]) -> list[Any]:
        """Nothing is started for a run."""
        return [None for tenant in run.tenants if tenant.job not in {job.name for job in JOBS.jobs}]

    def execute(self, run: Run, alone: Mapping[str, measured.Alone]) -> dict[str, Any]:
        """Note the run."""
        if run.id in self._failing:
            raise self._failing[run.id]
        assert plan.ready(run, alone)
        self.done.append(run)
        rows = [tenant(one.job, 100.0) for one in run.tenants]
        return {"outcome": "Ok", "durationSeconds": 1.0, "tenants": rows, "gpu": {}}


def carry_out(
    folder: Path,
    planned: Sequence[Run],
    executor: Notes,
    *,
    gpu_model: str = "NVIDIA-H200",
    deadline: float = float("inf"),
    mps: bool = True,
) -> Summary:
    def start() -> Any:
        if not mps:
            raise MpsUnavailableError("nvidia-cuda-mps-control is not on PATH")
        return object()

    facts = Facts(gpu_model, "GPU-1", True, {}, JOBS, Settings(5.0, 1.0, 10))
    with Path("/dev/null").open("w") as nowhere:
        screen = progress.Screen(nowhere)
        campaign = Campaign(facts, Store(folder), screen=screen, deadline=deadline)
        pool: Any = NoPool()
        runner: Any = executor
        return campaign.carry_out(planned, pool=pool, executor=runner, start_mps=start)


def test_every_run_is_done_once_in_the_order_of_the_plan(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, plan.STAGES), Notes()
    summary = carry_out(tmp_path, planned, executor)
    assert executor.done == list(planned)
    assert summary == Summary(len(planned), 0, {})


def test_a_second_call_does_what_the_first_left(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, ["alone", "pairs"]), Notes()
    carry_out(tmp_path, planned[:4], Notes())
    carry_out(tmp_path, planned, executor)
    assert executor.done == list(planned[4:])


def test_a_third_call_does_nothing(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, ["alone"]), Notes()
    carry_out(tmp_path, planned, Notes())
    assert carry_out(tmp_path, planned, executor) == Summary(len(planned), 0, {})
    assert executor.done == []


def test_no_run_is_begun_that_may_outlast_the_budget(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, ["alone"]), Notes()
    summary = carry_out(tmp_path, planned, executor, deadline=time.monotonic() - 1.0)
    assert executor.done == []
    assert summary == Summary(0, 5, {"the budget of time is used up": 5})


def test_where_there_is_no_mps_the_rest_is_measured_and_the_reason_said(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, ["alone", "pairs", "timeslicing"]), Notes()
    summary = carry_out(tmp_path, planned, executor, mps=False)
    assert {run.mechanism for run in executor.done} == {Mechanism.ALONE, Mechanism.TIME_SLICING}
    assert summary.blocked == {"no MPS: nvidia-cuda-mps-control is not on PATH": 5}


def test_what_the_gpus_settings_do_not_allow_is_left_with_the_reason(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, ["alone", "timeslicing"]), Notes()
    executor.refused = {Mechanism.TIME_SLICING}
    assert carry_out(tmp_path, planned, executor).blocked == {"one process": 3}


def test_a_run_whose_tenant_escapes_mps_is_no_result(tmp_path: Path) -> None:
    planned = plan.runs(JOBS, ["pairs"])
    executor = Notes({planned[0].id: MpsUnavailableError("the daemon has 1 clients")})
    summary = carry_out(tmp_path, planned, executor)
    assert summary.left == 1
    assert not (tmp_path / "results" / f"{planned[0].id}.json").exists()


def test_a_limit_in_percent_waits_until_the_job_was_measured_alone(tmp_path: Path) -> None:
    planned, executor = plan.runs(JOBS, ["memory"]), Notes()
    summary = carry_out(tmp_path, planned, executor)
    assert executor.done == []
    assert summary.blocked["waits for a result alone of resnet18-64"] == 3


def test_results_of_another_gpu_are_not_continued(tmp_path: Path) -> None:
    planned = plan.runs(JOBS, ["alone"])
    carry_out(tmp_path, planned[:1], Notes())
    with pytest.raises(StoreError, match=r"holds results of NVIDIA-H200 \(simulated\): measure into another folder"):
        carry_out(tmp_path, planned, Notes(), gpu_model="Tesla-T4")


def test_the_bar_shows_what_is_done_and_what_is_left() -> None:
    line = progress.line(done=30, total=60, stage=("pairs", 3, 210), left_seconds=5400, last="a + b")
    assert line == "[############............] 30/60, pairs 3/210, about 1 h 30 min left  a + b"
