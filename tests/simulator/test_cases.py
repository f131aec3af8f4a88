"""Which jobs there are in a snapshot, and what is drawn of them."""

import json
from datetime import timedelta
from statistics import fmean
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_simulator.cluster import cases, drawing, needs, replay
from cotenant_simulator.engine import jobs
from cotenant_simulator.live import snapshot, taking
from simulator import objects_kit as kit

MODEL = names.GPUModel(kit.MODEL)
MEMORY = {MODEL: kit.GPU_MIB}


def window(hours: float = 2) -> drawing.Window:
    return drawing.Window(begin=kit.NOW - timedelta(hours=hours), taken=kit.NOW)


def drawn(whole: snapshot.Snapshot, *, seed: int = 0, assumed: float | None = None) -> tuple[jobs.Job, ...]:
    return drawing.drawn(cases.of(whole), MEMORY, window(), seed=seed, assumed_percent=assumed)


def using(whole: snapshot.Snapshot, pod: str, percent: float, memory_mib: int | None = None) -> snapshot.Snapshot:
    usage = snapshot.Usage(
        namespace=names.Namespace("team"), pod=pod, utilization_percent=percent, memory_peak_mib=memory_mib
    )
    return whole.model_copy(update={"usage": (*whole.usage, usage)})


def of_dljob(name: str, index: int, **changed: Any) -> kit.Object:
    labels = {names.DLJOB_LABEL: "job", "batch.kubernetes.io/job-completion-index": str(index)}
    return kit.predicted(name, labels=labels, **changed)


def test_of_several_attempts_the_last_counts_and_the_first_tells_when_the_job_came() -> None:
    pods = [
        of_dljob("job-1-0", 0, created=60, started=50, finished=40),
        of_dljob("job-2-0", 0, created=40, started=30, finished=10),
    ]
    (found,) = cases.of(kit.packing(pods))
    assert (found.name, found.state) == ("job", cases.State.FINISHED)
    assert found.arrived == kit.NOW - timedelta(minutes=60)
    assert found.ran_seconds == 1200


def test_pods_of_a_gang_are_one_job_that_waits_as_long_as_one_of_them_does() -> None:
    notes = {names.GANG: json.dumps({"v": 1, "name": "g", "size": 2}), names.PREDICTION: kit.believed()}
    pods = [
        kit.pod("g-0", share=40, annotations=notes, started=10),
        kit.pod("g-1", share=40, annotations=notes),
    ]
    (found,) = cases.of(kit.packing(pods))
    assert (found.replicas, found.state) == (2, cases.State.WAITING)


def test_a_dljob_without_pods_is_known_by_its_status() -> None:
    over = {"phase": Phase.SUCCEEDED, "startTime": kit.time(50), "completionTime": kit.time(20)}
    predicted = {"prediction": {"gpuModel": kit.MODEL, "utilizationPercent": 30, "upperPercent": 45, "memoryMiB": 900}}
    listed = kit.lists(
        nodes=[kit.node()],
        gpunodes=[kit.gpunode()],
        dljobs=[
            kit.dljob("over", status=over | predicted),
            kit.dljob("held", status={"phase": Phase.SUSPENDED}),
            kit.dljob("new", replicas=2, workloadType="Inference"),
        ],
        policies=[kit.policy()],
    )
    whole = taking.taken(listed, now=kit.NOW)
    found = cases.of(whole)
    assert [case.name for case in found] == ["new", "new", "over"]
    assert found[2].ran_seconds == 1800
    kind = drawn(whole)[2].kind
    assert kind.predicted is not None
    assert kind.predicted.by_gpu[MODEL].utilization.upper == 45


def test_where_cotenant_packs_only_what_asks_it_is_a_job_and_elsewhere_everything_is() -> None:
    pods = [kit.pod("whole", whole=1), kit.predicted("shared")]
    assert [case.name for case in cases.of(kit.packing(pods))] == ["shared"]
    assert [case.name for case in cases.of(kit.plain(pods))] == ["shared", "whole"]


def test_a_pod_that_failed_before_it_ran_is_no_job() -> None:
    pod = kit.predicted("a")
    pod["status"] = {"phase": "Failed"}
    assert cases.of(kit.packing([pod])) == ()


def test_what_ended_before_the_window_is_left_out_and_what_began_before_has_what_it_had_left() -> None:
    pods = [
        kit.predicted("before", created=400, started=390, finished=300),
        kit.predicted("into", created=240, started=240, finished=60),
    ]
    whole = kit.packing(pods)
    found = drawing.inside(cases.of(whole), window())
    assert [case.name for case in found] == ["into"]
    (job,) = drawing.drawn(found, MEMORY, window(), seed=0)
    assert (job.arrives, job.seconds[MODEL]) == (0.0, 3600.0)


def test_real_needs_exceed_the_bound_as_often_as_the_predictor_says() -> None:
    pods = [
        kit.pod(f"a{number}", share=40, annotations={names.PREDICTION: kit.believed(20, upper=40, graph=f"g{number}")})
        for number in range(2000)
    ]
    real = [job.kind.real[MODEL].utilization.q50 for job in drawn(kit.packing(pods))]
    assert fmean(value > 40 for value in real) == pytest.approx(1 - needs.LEVEL, abs=0.02)
    assert fmean(value > 20 for value in real) == pytest.approx(0.5, abs=0.03)


def test_jobs_of_one_graph_err_alike_and_differently_with_another_seed() -> None:
    whole = kit.packing([kit.predicted(name, 20, upper=40) for name in "ab"])
    first, second = drawn(whole)
    assert first.kind is second.kind
    assert drawn(whole)[0].kind.real == first.kind.real
    assert drawn(whole, seed=1)[0].kind.real != first.kind.real


def test_what_monitoring_saw_is_what_is_really_needed_and_booked_with_the_operators_margins() -> None:
    whole = using(kit.plain([kit.pod("a", whole=1, started=30)]), "a", 35.0, 4000)
    (job,) = drawn(whole)
    assert job.kind.predicted is not None
    assert job.kind.predicted.by_gpu[MODEL].utilization.upper == 45
    assert job.kind.predicted.by_gpu[MODEL].memory_mib.upper == 4800
    assert job.kind.real[MODEL].utilization.q50 == 35
    assert job.kind.real[MODEL].memory_mib.q50 == 4000


def test_a_job_that_filled_the_memory_of_its_gpu_keeps_it_whole() -> None:
    whole = using(kit.plain([kit.pod("a", whole=1, started=30)]), "a", 35.0, kit.GPU_MIB - 100)
    (job,) = drawn(whole)
    assert job.kind.predicted is None
    assert job.kind.real[MODEL].utilization.q50 == 35


def test_a_job_of_which_nothing_is_known_is_what_is_assumed_or_has_a_whole_gpu() -> None:
    whole = kit.plain([kit.pod("a", whole=1)])
    assert drawn(whole)[0].kind.predicted is None
    (job,) = drawn(whole, assumed=30.0)
    assert job.kind.predicted is not None
    assert job.kind.predicted.by_gpu[MODEL].utilization.q50 == 30


def test_a_running_job_goes_on_for_longer_than_it_has_run() -> None:
    pods = [kit.predicted(f"d{n}", created=119, started=119, finished=119 - n * 10) for n in range(1, 11)]
    pods.append(kit.predicted("running", created=35, started=35))
    job = drawn(kit.packing(pods))[-1]
    assert job.name == "running"
    assert job.seconds[MODEL] in [600.0 * n for n in range(4, 11)]


def test_a_waiting_job_runs_as_long_as_some_that_have_ended() -> None:
    pods = [kit.predicted(f"d{n}", created=119, started=119, finished=119 - n * 10) for n in range(1, 11)]
    lengths = {drawn(kit.packing([*pods, kit.predicted("w")]), seed=seed)[-1].seconds[MODEL] for seed in range(20)}
    assert lengths <= {600.0 * n for n in range(1, 11)}
    assert len(lengths) > 3


def test_inference_serves_to_the_end_of_the_replay() -> None:
    notes = {names.PREDICTION: kit.believed(), names.WORKLOAD_TYPE: "Inference"}
    pods = [kit.pod("serve", share=40, annotations=notes, created=90), kit.predicted("a", started=10)]
    serve, train = drawn(kit.packing(pods))
    assert serve.arrives + serve.seconds[MODEL] >= train.arrives + train.seconds[MODEL]


def test_jobs_may_use_only_the_models_that_they_name() -> None:
    whole = kit.packing([kit.pod("a", share=40, annotations={names.GPU_MODELS: "NVIDIA-H200"})])
    (job,) = drawn(whole)
    plan = replay.Plan(name="p", policy=whole.policy)
    nodes = replay.nodes_of(whole)
    ((_, why),) = replay.refused([job], nodes, replay.way_of(plan), replay.in_force(plan))
    assert why.reason == "GPUModelMismatch"
