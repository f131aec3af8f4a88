"""The measurement of space-time sharing: what is compared, what is made of it, and the processes that it drives."""

import argparse
import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e.__main__ import main
from cotenant_e2e.commands import space_time
from cotenant_e2e.space_time import arrivals, measure, mechanisms, plots, report, results
from cotenant_e2e.space_time.arrivals import Arrivals
from cotenant_e2e.space_time.processes import Worker, WorkerError
from cotenant_e2e.space_time.results import Cell, Run
from cotenant_e2e.space_time.weights import Weights

PLAIN = Cell(
    training="vgg16",
    arrivals=Arrivals.FIXED.value,
    mechanism=mechanisms.TIME_SLICING,
    is_split=False,
    is_ours=False,
    latencies=[0.01] * 99 + [0.2],
    deadline=0.1,
    steps=[0.3, 0.5],
    alone=0.2,
)
SPLIT = replace(PLAIN, mechanism="Split 1 + 1 cores", is_split=True)
OURS = replace(PLAIN, mechanism=mechanisms.OURS, is_ours=True, steps=[0.26], waited_ratio=0.2)
CONDITIONS = {
    "processor": "a processor",
    "cores": 2,
    "kernel": "6.1",
    "python": "3.11",
    "torch": "2.1",
    "load": 0.1,
    "cell_seconds": 18.0,
}


def run_of(*cells: Cell, device: str = "cpu") -> Run:
    return Run(
        device=device,
        conditions=CONDITIONS,
        service=0.02,
        deadline=0.1,
        per_second=7.5,
        quick=False,
        alone={kind.value: [0.02] * 100 for kind in Arrivals},
        cells=list(cells),
        left_out=["cgroup weights: /sys/fs/cgroup/cpu: not there"],
    )


def test_requests_at_a_fixed_rate_come_at_even_distances() -> None:
    assert arrivals.times(Arrivals.FIXED, per_second=4, seconds=1, seed=1) == [0, 0.25, 0.5, 0.75]


def test_poisson_arrivals_have_the_rate_and_are_the_same_for_the_same_seed() -> None:
    found = arrivals.times(Arrivals.POISSON, per_second=10, seconds=1000, seed=1)
    assert len(found) == pytest.approx(10_000, rel=0.05)
    assert found == sorted(found)
    assert found == arrivals.times(Arrivals.POISSON, per_second=10, seconds=1000, seed=1)
    assert found[-1] < 1000


def test_two_cores_have_a_split_apart_and_one_with_fewer_cores_for_training() -> None:
    found = {one.name: one for one in mechanisms.on_cpu([4, 7], weights=True)}
    assert list(found) == [
        mechanisms.TIME_SLICING,
        "Split 1 + 1 cores",
        "Split 2 + 1 cores",
        mechanisms.OURS,
        mechanisms.WEIGHTS,
        mechanisms.NICE,
    ]
    apart = found["Split 1 + 1 cores"]
    assert set(apart.inference.cores).isdisjoint(apart.training.cores)
    assert found[mechanisms.OURS].training == found[mechanisms.TIME_SLICING].training


def test_on_a_gpu_each_thread_percentage_is_a_split() -> None:
    found = mechanisms.on_gpu([0, 1], [50, 10], under_mps={"CUDA_MPS_PIPE_DIRECTORY": "/pipe"})
    limits = [one.training.environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") for one in found if one.is_split]
    assert limits == ["50", "10"]
    assert [one.is_split for one in mechanisms.on_gpu([0], [50], under_mps={})] == [False, False]


def test_the_slowdown_under_the_best_split_that_holds_is_the_measure() -> None:
    worse = replace(SPLIT, mechanism="Split 2 + 1 cores", steps=[0.1], latencies=[0.2])
    (verdict,) = results.verdicts(run_of(PLAIN, SPLIT, worse, OURS))
    assert verdict.split == SPLIT
    assert verdict.most == 1.35
    assert OURS.multiple == pytest.approx(1.3)
    assert verdict.met


@pytest.mark.parametrize(
    "ours",
    [
        replace(OURS, steps=[0.28]),
        replace(OURS, latencies=[0.2, *OURS.latencies]),
    ],
    ids=["too slow", "too late"],
)
def test_slow_training_and_late_answers_miss_the_bar(ours: Cell) -> None:
    assert not results.verdicts(run_of(SPLIT, ours))[0].met


def test_half_of_a_small_slowdown_is_a_tighter_bar_than_the_multiple() -> None:
    (verdict,) = results.verdicts(run_of(replace(SPLIT, steps=[0.28]), OURS))
    assert verdict.most == pytest.approx(1.2)
    assert not verdict.met


def test_where_no_split_holds_the_slo_there_is_no_bar() -> None:
    (verdict,) = results.verdicts(run_of(replace(SPLIT, latencies=[0.2]), replace(OURS, steps=[9.0])))
    assert verdict.split is None
    assert verdict.met


def test_a_run_without_any_comparison_does_not_pass() -> None:
    assert not results.passes(run_of(replace(SPLIT, latencies=[0.2]), OURS))
    assert results.passes(run_of(SPLIT, OURS))


def test_on_a_gpu_the_published_multiple_is_the_bar() -> None:
    assert results.verdicts(run_of(SPLIT, OURS, device="cuda"))[0].most == 1.22


def test_a_run_is_read_as_it_was_kept() -> None:
    run = run_of(PLAIN, SPLIT, OURS)
    assert results.of_object(json.loads(json.dumps(run.to_object()))) == run


def test_the_report_says_where_it_was_measured_and_names_what_was_left_out() -> None:
    text = "\n".join(report.lines(run_of(PLAIN, SPLIT, OURS)))
    assert "measured on a CPU, not on a GPU" in text
    assert "The bar is met in 1 of 1 comparisons" in text
    assert "| vgg16 | Space-time | 99.0% | 10.0 | 10.0 | 1.30 | 20.0% |" in text
    assert text.endswith("Left out: cgroup weights: /sys/fs/cgroup/cpu: not there.")


def test_the_picture_says_where_it_was_measured(tmp_path: Path) -> None:
    plots.draw(run_of(PLAIN, SPLIT, OURS), tmp_path / "plot.svg")
    assert "measured on a CPU, not on a GPU" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize(("ours", "code"), [(OURS, 0), (replace(OURS, steps=[1.0]), 1)])
def test_the_command_writes_the_page_and_fails_where_the_bar_is_missed(
    tmp_path: Path, ours: Cell, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, page = tmp_path / "kept.json", tmp_path / "page.md"
    kept.write_text(json.dumps(run_of(PLAIN, SPLIT, ours).to_object()))
    page.write_text("<!-- begin: make space-time -->\n<!-- end: make space-time -->\n")
    words = ["space-time", "--from", str(kept), "--write", str(page), "--plot", str(tmp_path / "plot.svg")]
    assert main(words) == code
    assert "](plot.svg)" in page.read_text()
    assert "| vgg16 | Fixed rate | Split 1 + 1 cores |" in capsys.readouterr().out


def test_weights_are_set_in_groups_that_are_removed_again(tmp_path: Path) -> None:
    """A folder stands for the cgroup file system, which removes the files of a group with the group."""
    assert Weights(tmp_path / "absent").possible().startswith(str(tmp_path / "absent"))
    weights = Weights(tmp_path)
    weights.set(7, 2)
    group = tmp_path / "cotenant-space-time-7"
    assert ((group / "cpu.shares").read_text(), (group / "cgroup.procs").read_text()) == ("2", "7")
    for file in group.iterdir():
        file.unlink()
    weights.end()
    assert not group.exists()
    assert (tmp_path / "cgroup.procs").read_text() == "7"


WORKER = f"""#!{sys.executable}
import json, sys, time
def say(found): print(json.dumps(found), flush=True)
say({{"torch": "0"}})
for line in sys.stdin:
    command = json.loads(line)
    what = command["do"]
    if what == "train":
        begin = time.monotonic()
        sys.stdin.readline()
        say({{"steps": [[begin, time.monotonic()]], "waited": 0.5}})
    elif what == "calibrate":
        say({{"seconds": [0.02] * command["requests"]}})
    elif what == "serve":
        begin = time.monotonic()
        say({{"begin": begin, "end": begin + 1, "latencies": [0.03] * len(command["arrivals"])}})
    else:
        say({{}})
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A program in place of Python that answers as a worker does, at once."""
    program = tmp_path / "python"
    program.write_text(WORKER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_every_mechanism_is_measured_with_every_job_and_stream(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RAMP_SECONDS", 0.0)
    plan = measure.Plan(
        device="cpu",
        training=("rnnlm", "gpt2"),
        cell_seconds=1,
        alone_seconds=0.01,
        busy_ratio=0.2,
        deadline_multiple=5,
        quick=True,
    )
    said: list[str] = []
    monkeypatch.setattr(Weights, "possible", lambda _: "not here")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    run = measure.Measurement(plan, python=python, say=said.append).run()
    names = [one.name for one in mechanisms.on_cpu([0, 1], weights=False)]
    assert [(cell.training, cell.mechanism) for cell in run.cells if cell.arrivals == "Poisson"] == [
        (training, name) for training in plan.training for name in names
    ]
    assert run.deadline == pytest.approx(0.1)
    assert run.per_second == pytest.approx(10)
    assert run.left_out == ["cgroup weights: not here"]
    assert all(cell.alone > 0 for cell in run.cells)
    assert [cell.waited_ratio for cell in run.cells if cell.is_ours] == [0.5] * 4
    assert len(said) == 1 + len(run.cells)


def test_a_worker_that_ends_is_told_with_its_last_lines(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no module named torch >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(WorkerError, match=r"training vgg16 has ended: no module named torch"):
        Worker(str(program), ["training", "vgg16", "cpu"], environment={}, log=tmp_path / "log")


def test_a_page_without_a_place_for_the_tables_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing\n")
    parser = argparse.ArgumentParser()
    space_time.configure(parser)
    with pytest.raises(errors.InvalidInputError, match="must hold the lines"):
        space_time.run(parser.parse_args(["--write", str(tmp_path / "page.md")]))
