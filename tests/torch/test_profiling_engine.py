"""Real steps of torch in a tenant's process; on the processor, which is named simulated wherever it is measured."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cotenant_predictor.profiling import statistics, torch_engine, worker
from cotenant_predictor.profiling.catalog import Job
from cotenant_predictor.profiling.engines import OutOfMemoryError

SMALL = {"size": 32, "classes": 10}
TRAINING = Job("t", "squeezenet", "c", "classic.squeezenet", 2, arguments=SMALL)
SERVING = Job("s", "squeezenet", "c", "classic.squeezenet", 1, False, arguments=SMALL)


@pytest.fixture(scope="module")
def engine() -> torch_engine.TorchEngine:
    torch.set_num_threads(1)
    found = torch_engine.TorchEngine("cpu")
    found.load([TRAINING, SERVING])
    return found


def test_steps_run_one_behind_the_other_until_their_end(engine: torch_engine.TorchEngine) -> None:
    start = time.monotonic() + 0.02
    report = engine.steps(0, start_at=start, until=start + 0.3, stop=threading.Event())
    assert report.spans[0][0] >= start
    assert statistics.covers(report.spans, report.spans[0][0], start + 0.3)
    assert all(a[1] <= b[0] + 1e-9 for a, b in zip(report.spans, report.spans[1:], strict=False))
    assert len(report.host_to_device_milliseconds) == len(report.spans)


def test_a_stopped_job_ends_without_an_end_of_its_own(engine: torch_engine.TorchEngine) -> None:
    stop = threading.Event()
    stop.set()
    assert engine.steps(0, start_at=0.0, until=None, stop=stop).spans == []


def test_training_changes_the_weights(engine: torch_engine.TorchEngine) -> None:
    tenant = torch_engine.Tenant(TRAINING, torch.device("cpu"), None)
    before = [parameter.clone() for parameter in tenant.model.parameters()]
    tenant.step(torch_engine.HostTimeline())
    changed = zip(before, tenant.model.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in changed)


def test_requests_are_all_answered_and_timed_from_their_arrival(engine: torch_engine.TorchEngine) -> None:
    start = time.monotonic()
    report = engine.requests(1, start_at=start, arrivals=[0.0, 0.0, 0.2], stop=threading.Event())
    first, second, third = report.turnaround_milliseconds
    assert second > first, "the second waits for the first"
    assert report.spans[2][0] >= start + 0.2
    assert third == pytest.approx(1000 * (report.spans[2][1] - start - 0.2), abs=1e-6)


def test_requests_one_by_one_begin_as_the_last_is_answered(engine: torch_engine.TorchEngine) -> None:
    report = engine.requests(1, start_at=time.monotonic(), arrivals=3, stop=threading.Event())
    assert len(report.turnaround_milliseconds) == 3


def test_the_processor_has_no_kernels_and_says_so(engine: torch_engine.TorchEngine) -> None:
    assert engine.profile() == {"kernels": [], "reasons": {"kernels": "not measured on a GPU"}}
    assert engine.reserved_mib() == 0


@pytest.mark.parametrize("text", ["CUDA out of memory. Tried", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when"])
def test_out_of_memory_is_told_from_other_errors(text: str) -> None:
    with pytest.raises(OutOfMemoryError), torch_engine.explained():
        raise RuntimeError(text)
    with pytest.raises(RuntimeError, match="device-side assert"), torch_engine.explained():
        raise RuntimeError("device-side assert triggered")


def test_an_optimizer_is_chosen_by_name_and_options() -> None:
    found = torch_engine.optimizer("sgd:momentum=0.9,lr=0.5", nn.Linear(1, 1))
    assert isinstance(found, torch.optim.SGD)
    assert (found.defaults["momentum"], found.defaults["lr"]) == (0.9, 0.5)
    with pytest.raises(ValueError, match="has none of this name"):
        torch_engine.optimizer("nonsense", nn.Linear(1, 1))


def test_jobs_of_one_process_cannot_differ_in_tf32() -> None:
    other = Job("t", "squeezenet", "c", "classic.squeezenet", 2, precision="tf32", arguments=SMALL)
    with pytest.raises(ValueError, match="must all use tf32, or none"):
        torch_engine.TorchEngine("cpu").load([TRAINING, other])


def test_a_tenants_process_answers_each_command_with_a_line() -> None:
    command = [sys.executable, "-m", "cotenant_predictor.profiling.worker", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def ask(**asked: object) -> Any:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            return answer()

        def answer() -> Any:
            assert process.stdout is not None
            return json.loads(process.stdout.readline())

        assert answer() == {"outcome": "Ok", "pid": process.pid}
        assert ask(do="load", jobs=[TRAINING.to_object(), SERVING.to_object()])["outcome"] == "Ok"
        endless = {"load": "Steps", "startAt": 0.0, "until": None}
        ran = ask(do="run", tenants=[endless, {"load": "SingleStream", "startAt": 0.0, "arrivals": 2}])
        assert ran["tenants"][0]["spans"], "the training ran until the requests were answered"
        assert len(ran["tenants"][1]["turnaroundMilliseconds"]) == 2
        assert ask(do="profile")["outcome"] == "Ok"
    assert process.returncode == 0, "it ended with its input"


def test_a_command_that_comes_during_a_run_is_answered_after_it(engine: torch_engine.TorchEngine) -> None:
    run = {"do": "run", "tenants": [{"load": "Steps", "startAt": 0.0, "until": time.monotonic() + 0.2}]}
    reader, writer = os.pipe()
    with open(reader, "rb") as commands, open(writer, "w") as input_:  # noqa: PTH123  # descriptors, no paths
        input_.write(f'{json.dumps(run)}\n{{"do": "profile"}}\n{{"do": "quit"}}\n')
        input_.flush()
        answers = io.StringIO()
        worker.serve(engine, worker.Commands(commands.fileno()), answers)
    ready, ran, profiled = (json.loads(line) for line in answers.getvalue().splitlines())
    assert ready["outcome"] == "Ok"
    assert ran["tenants"][0]["spans"]
    assert profiled["kernels"] == []


def test_an_error_of_torch_is_an_answer_and_the_process_goes_on(tmp_path: Path) -> None:
    class Failing(torch_engine.TorchEngine):
        def load(self, jobs: Sequence[Job]) -> None:
            raise OutOfMemoryError(f"CUDA out of memory with {len(jobs)} jobs")

        def profile(self) -> dict[str, object]:
            raise RuntimeError("CUDA error: unspecified launch failure")

    (tmp_path / "in").write_text('{"do": "load", "jobs": []}\n{"do": "profile"}\n{"do": "quit"}\n')
    answers = io.StringIO()
    with (tmp_path / "in").open() as file:
        worker.serve(Failing("cpu"), worker.Commands(file.fileno()), answers)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [answer["outcome"] for answer in found] == ["Ok", "OutOfMemory", "Crashed"]
