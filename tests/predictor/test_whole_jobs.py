"""Whole jobs that others measured: which there are, and that the model that ships has learned nothing of them."""

import collections
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor import devices
from cotenant_predictor.datasets import alnair, miso_jobs, shipped, zeus
from cotenant_predictor.datasets.whole_jobs import WholeJob
from cotenant_predictor.evaluation import report, run, splits, whole_jobs
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.evaluation.splits import Array
from cotenant_predictor.models import store
from cotenant_predictor.training import run as training

PAGE = Path(__file__).parents[2] / "docs/prediction.md"
SETS = (shipped.MISO_JOBS, shipped.ZEUS, shipped.ALNAIR)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Return the scores of what ships, of MISO's jobs."""
    bench = whole_jobs.Bench(jobs=miso_jobs.load(), labels=miso_jobs.LABELS)
    return whole_jobs.untouched(bench, store.load().kernel_knowledge())


@pytest.fixture(scope="module")
def zeus_rows() -> list[Row]:
    """Return the scores of what ships, of Zeus' jobs."""
    bench = whole_jobs.Bench(jobs=zeus.load(), split=splits.LEAVE_GPU_OUT, known=zeus.known())
    return whole_jobs.untouched(bench, store.load().kernel_knowledge())


@pytest.fixture(scope="module")
def alnair_rows() -> list[Row]:
    """Return the scores of what ships, of Alnair's jobs."""
    bench = whole_jobs.Bench(jobs=alnair.load(), labels=alnair.LABELS)
    return whole_jobs.untouched(bench, store.load().kernel_knowledge())


def test_every_job_of_miso_has_its_graph_and_what_nvidia_smi_said() -> None:
    jobs = miso_jobs.load()
    batches = {program: [job.batch_size for job in jobs if job.program == program] for program in miso_jobs.SOURCES}
    assert len(jobs) == 33
    assert batches.pop("dummy") == [32]
    assert {len(found) for found in batches.values()} == {4}
    assert all(job.graph.batch_size == job.batch_size and job.graph.peak_activation_bytes for job in jobs)
    assert all(job.graph.precision == "tf32" and not job.graph.coverage.unknown for job in jobs)
    smi = {"utilization", "memoryUtilization", "memoryPeakMiB", "powerWatts"}
    assert all(job.measured.keys() == smi | {"stepMilliseconds"} for job in jobs if job.program != "dummy")
    assert {job.measured.keys() == smi for job in jobs if job.program == "dummy"} == {True}
    assert miso_jobs.GPU_MODEL in devices.load()


def test_the_board_is_the_one_whose_limit_no_job_exceeds() -> None:
    limit = devices.load()[miso_jobs.GPU_MODEL].power_watts
    most = max(job.measured["powerWatts"] for job in miso_jobs.load())
    assert 0.95 * limit < most < limit


def test_jobs_of_zeus_are_those_whose_programs_are_public_at_the_highest_limit() -> None:
    jobs = zeus.load()
    counts = collections.Counter((job.gpu_model, job.program) for job in jobs)
    assert len(jobs) == sum(counts.values()) == 79
    assert [counts[model, "resnet50"] for model in zeus.GPU_MODELS.values()] == [8, 9, 7, 5]
    assert [counts[model, "shufflenetv2"] for model in zeus.GPU_MODELS.values()] == [20, 11, 10, 9]
    assert all(job.graph.batch_size == job.batch_size and not job.graph.coverage.unknown for job in jobs)
    assert all(job.measured["powerWatts"] < zeus.known()[job.gpu_model].power_watts for job in jobs)


def test_jobs_of_alnair_are_those_that_can_be_written_in_pytorch() -> None:
    jobs = alnair.load()
    counts = collections.Counter(job.program for job in jobs)
    assert (len(jobs), counts.pop("BERT"), counts.pop("DCGAN")) == (36, 7, 4)
    assert set(counts.values()) == {5}
    assert all(job.graph.batch_size == job.batch_size and not job.graph.coverage.unknown for job in jobs)
    assert all(job.measured["utilization"] <= 100 for job in jobs)


def test_the_time_of_a_step_is_that_of_an_epoch_over_its_steps() -> None:
    job = next(job for job in zeus.load() if job.program == "resnet50" and job.batch_size == 256)
    assert job.measured["stepMilliseconds"] == pytest.approx(1e3 * 3515.0 / 5005, rel=1e-3)
    assert job.measured["stepJoules"] == pytest.approx(job.measured["powerWatts"] * 3515.0 / 5005, rel=1e-3)


def test_no_job_says_how_fast_its_samples_come_and_the_rows_say_so(
    rows: list[Row], zeus_rows: list[Row], alnair_rows: list[Row]
) -> None:
    assert not any(job.is_input_rate_known for job in (*miso_jobs.load(), *zeus.load(), *alnair.load()))
    assert {row.value for row in (*rows, *zeus_rows, *alnair_rows) if row.metric == "inputRateUnknown"} == {1.0}


@pytest.mark.parametrize("host", [{"dataOnGPU": True}, {"samplesPerSecond": 100.0}])
def test_a_declared_rate_is_known(host: dict[str, float]) -> None:
    job = miso_jobs.load()[0]
    declared = {**job.graph.to_object(), "host": host}
    graph = type(job.graph).from_object(declared, source="test").sealed()
    assert dataclasses.replace(job, graph=graph).is_input_rate_known


def test_what_ships_is_learned_from_none_of_these_sets() -> None:
    assert not set(SETS) & set(training.LEARNED_SETS)
    assert not set(SETS) & set(store.load().learned["sets"])


def test_constants_are_learned_without_the_program_that_is_scored() -> None:
    jobs = miso_jobs.load()
    honest, told = (
        whole_jobs.by_others("powerWatts", whole_jobs.Bench(jobs=some))["constant"].median
        for some in (jobs, _spoilt(jobs, "bert"))
    )
    _assert_one_program_is_unmoved(jobs, honest, told)


def test_corrections_are_learned_without_the_program_that_is_scored() -> None:
    jobs = [job for job in miso_jobs.load() if job.program in {"bert", "resnet", "transformer"}]
    columns = whole_jobs._said(whole_jobs.Bench(jobs=jobs), store.load().kernel_knowledge()).rows
    honest, told = (
        whole_jobs.corrected("powerWatts", whole_jobs.Bench(jobs=some), columns)["cotenant"].median
        for some in (jobs, _spoilt(jobs, "bert"))
    )
    _assert_one_program_is_unmoved(jobs, honest, told)


def _spoilt(jobs: Sequence[WholeJob], program: str) -> list[WholeJob]:
    """Return the jobs with another power of one program."""
    return [
        job if job.program != program else dataclasses.replace(job, measured={**job.measured, "powerWatts": 1e6})
        for job in jobs
    ]


def _assert_one_program_is_unmoved(jobs: Sequence[WholeJob], honest: Array, told: Array) -> None:
    mine = np.array([job.program == "bert" for job in jobs])
    assert np.array_equal(honest[mine], told[mine])
    assert not np.array_equal(honest[~mine], told[~mine])


def test_the_page_shows_what_is_found_now(rows: list[Row], zeus_rows: list[Row], alnair_rows: list[Row]) -> None:
    shown = PAGE.read_text(encoding="utf-8")
    for found in (rows, zeus_rows, alnair_rows):
        assert "\n".join(report.tables(found)).strip() in shown
        for table in "\n".join(report.group_tables(found)).strip().split("\n\n**"):
            assert table in shown


@pytest.mark.parametrize("name", SETS)
def test_nothing_is_learned_from_the_set_so_that_it_has_no_splits(name: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=f"is no split of {name}"):
        run.of_set(name, run.Request(splits=(splits.RANDOM,)))
