"""Sets and plans: what is measured, in which order, and what is left."""

import itertools

import pytest

from cotenant_predictor.profiling import plan, sets
from cotenant_predictor.profiling.mechanisms import Mechanism


def test_horus81_has_81_jobs_of_eleven_architectures_at_the_published_batches() -> None:
    jobs = sets.horus81().jobs
    assert len(jobs) == 81
    assert len({job.name for job in jobs}) == 81
    assert {job.group for job in jobs} == {
        *("mobilenetv2", "resnet", "googlenet", "vgg", "resnext", "squeezenet"),
        *("densenet", "shufflenetv2", "mnasnet", "pyramidnet", "lstm"),
    }
    assert {job.batch_size for job in jobs if job.group == "lstm"} == {16, 32, 64}
    assert {job.batch_size for job in jobs if job.group != "lstm"} == {64, 128, 256, 512}


def test_horus81_pairs_24_jobs_which_makes_the_published_276_combinations() -> None:
    runs = plan.runs(sets.horus81(), ["pairs"])
    assert len({frozenset(tenant.job for tenant in run.tenants) for run in runs}) == 276


def test_kace21_has_seven_workloads_at_three_batches_and_all_210_pairs_under_mps() -> None:
    jobs = sets.kace21()
    runs = plan.runs(jobs, ["pairs"])
    assert len(jobs.jobs) == 21
    assert {frozenset(tenant.job for tenant in run.tenants) for run in runs} == {
        frozenset(pair) for pair in itertools.combinations([job.name for job in jobs.jobs], 2)
    }
    assert {run.mechanism for run in runs} == {Mechanism.MPS}


def test_whisper_and_wav2vec_only_answer_in_kace21() -> None:
    training = {job.group for job in sets.kace21().jobs if job.training}
    assert training == {"bert", "vit", "albert"}


def test_every_run_has_an_id_of_its_own_that_never_changes() -> None:
    first, second = (plan.runs(sets.kace21(), plan.STAGES) for _ in range(2))
    assert [run.id for run in first] == [run.id for run in second]
    assert len({run.id for run in first}) == len(first)


def test_a_run_survives_being_written_as_json() -> None:
    for run in plan.runs(sets.smoke(), plan.STAGES):
        assert plan.Run.from_object(run.to_object()) == run


def test_stages_come_in_one_order_whatever_the_order_asked_for() -> None:
    runs = plan.runs(sets.smoke(), ["triples", "alone"])
    assert list(dict.fromkeys(run.stage for run in runs)) == ["alone", "triples"]


def test_an_unknown_stage_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"stage 'pair': choose from management, .*, alone, pairs"):
        plan.runs(sets.smoke(), ["pair"])


def test_what_has_a_result_is_not_left() -> None:
    runs = plan.runs(sets.smoke(), ["alone", "pairs"])
    left = plan.left(runs, {runs[0].id, runs[2].id})
    assert left == (runs[1], *runs[3:])
    assert plan.counts(runs, {runs[0].id})["alone"] == (1, 5)


def test_thread_percentages_run_from_10_to_100() -> None:
    runs = [run for run in plan.runs(sets.kace21(), ["percentages"]) if run.tenants[0].job == "vit-training-8"]
    assert [run.tenants[0].thread_percentage for run in runs] == list(range(10, 101, 10))


def test_some_runs_are_repeated_for_the_noise_floor() -> None:
    runs = plan.runs(sets.kace21(), ["alone"])
    assert {run.tenants[0].job for run in runs if run.repeat == 2} == {
        *("bert-training-2", "bert-inference-8", "wav2vec2-inference-16")
    }


def test_a_memory_limit_in_percent_waits_for_the_result_alone() -> None:
    run = next(run for run in plan.runs(sets.smoke(), ["memory"]))
    assert run.waits_for == ("resnet18-64",)
    assert not plan.ready(run, [])
    assert plan.ready(run, ["resnet18-64"])


def test_every_mechanism_is_compared_with_both_kinds_of_requests() -> None:
    runs = plan.runs(sets.kace21(), ["compare"])
    found = {(run.mechanism, run.tenants[0].load) for run in runs}
    assert found == set(itertools.product(Mechanism, ("SingleStream", "Poisson")))
    assert all(run.tenants[1].load == "Steps" for run in runs if len(run.tenants) == 2)


def test_training_is_below_inference_where_priorities_are_measured() -> None:
    for run in plan.runs(sets.kace21(), ["priority"]):
        assert [tenant.client_priority for tenant in run.tenants] == [0, 1]
        assert "inference" in run.tenants[0].job
        assert "training" in run.tenants[1].job


def test_triples_are_a_bounded_sample_of_different_jobs() -> None:
    runs = plan.runs(sets.kace21(), ["triples"])
    assert len(runs) == plan.MAX_TRIPLES
    assert all(len({tenant.job for tenant in run.tenants}) == 3 for run in runs)


def test_another_precision_is_another_set_with_other_names() -> None:
    changed = sets.in_precision(sets.smoke(), "bf16")
    assert [job.name for job in changed.jobs] == [
        "resnet18-64-bf16",
        "lstm-256x1-16-bf16",
        "squeezenet-inference-8-bf16",
    ]
    assert {job.precision for job in changed.jobs} == {"bf16"}
    assert not {run.id for run in plan.runs(changed, plan.STAGES)} & {
        run.id for run in plan.runs(sets.smoke(), plan.STAGES)
    }


def test_an_unknown_set_or_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="set 'kace': choose one of behaviour, horus81, kace21, smoke"):
        sets.named("kace")
    with pytest.raises(ValueError, match="precision 'fp8': choose one of"):
        sets.in_precision(sets.smoke(), "fp8")
