"""What a job will be booked for and cost on each GPU model: as operator and extender book."""

from typing import Any

import pytest

from cli import kit
from cotenant_api import dljob, errors, packingpolicy, prediction
from cotenant_api.names import GPUModel
from cotenant_cli.reading import objects
from cotenant_cli.submitting import costs

A10, L4 = GPUModel(kit.MODEL), GPUModel("NVIDIA-L4")
DOCUMENT = prediction.Prediction.from_json(kit.prediction(), source="test")
FLEET = {A10: costs.Kind(count=2, memory_mib=kit.GPU_MIB), L4: costs.Kind(count=1, memory_mib=kit.GPU_MIB)}


def ask(
    *,
    policy: packingpolicy.Spec | None = None,
    document: prediction.Prediction = DOCUMENT,
    steps: int | None = None,
    prices: costs.Prices | None = None,
    fleet: dict[GPUModel, costs.Kind] | None = None,
    **spec: Any,
) -> dict[str, costs.Row]:
    question = costs.Question(
        spec=dljob.Spec.model_validate({"template": {"spec": {}}} | spec),
        policy=policy or packingpolicy.Spec(),
        fleet=FLEET if fleet is None else fleet,
        steps=steps,
        prices=prices or {},
    )
    return {row.gpu_model: row for row in costs.rows(document, question)}


def changed(model: GPUModel, **fields: object) -> prediction.Prediction:
    row = DOCUMENT.by_gpu[model].model_copy(update=fields)
    return DOCUMENT.model_copy(update={"by_gpu": dict(DOCUMENT.by_gpu) | {model: row}})


def test_what_is_booked_is_the_upper_bound() -> None:
    rows = ask()
    assert {model: (row.share, row.memory_mib, row.gpus) for model, row in rows.items()} == {
        A10: (55, 4000, 2),
        L4: (90, 4000, 1),
    }
    assert list(rows) == [A10, L4]


def test_a_policy_that_packs_more_tightly_books_less() -> None:
    assert ask(policy=packingpolicy.Spec(max_utilization_percent=200))[A10].share == 28


def test_run_time_and_cost_follow_from_steps_and_prices() -> None:
    rows = ask(steps=36_000, prices={A10: 2.0, L4: 0.5}, replicas=3)
    assert rows[A10].run_hours == pytest.approx(1.0)
    assert rows[A10].cost_per_hour == rows[A10].cost == pytest.approx(2.0 * 0.55 * 3)
    assert list(rows) == [L4, A10], "the cheapest first"


def test_without_a_price_there_is_no_cost() -> None:
    row = ask(steps=1, prices={L4: 1.0})[A10]
    assert (row.cost_per_hour, row.cost) == (None, None)


@pytest.mark.parametrize(
    ("spec", "policy", "share"),
    [
        ({"sharing": "Exclusive"}, packingpolicy.Spec(), 100),
        ({"gpusPerReplica": 4}, packingpolicy.Spec(), 400),
        ({}, packingpolicy.Spec(mode=packingpolicy.Mode.OBSERVE), 100),
        ({}, packingpolicy.Spec(placement=packingpolicy.Placement.EXCLUSIVE), 100),
    ],
)
def test_whole_gpus_are_booked_where_nothing_is_shared(
    spec: dict[str, Any], policy: packingpolicy.Spec, share: int
) -> None:
    assert ask(policy=policy, **spec)[A10].share == share


def test_a_model_that_cannot_be_predicted_for_is_not_used_beside_one_that_can() -> None:
    row = ask(document=changed(L4, out_of_domain=True))[L4]
    assert row.note == "not used: what it needs there cannot be predicted"


def test_a_job_that_cannot_be_predicted_at_all_gets_a_whole_gpu_or_waits() -> None:
    document = changed(L4, out_of_domain=True)
    rows = {model: row.model_copy(update={"out_of_domain": True}) for model, row in document.by_gpu.items()}
    nowhere = document.model_copy(update={"by_gpu": rows})
    assert ask(document=nowhere)[A10].note == "a whole GPU: this cannot be predicted"
    holds = packingpolicy.Queue(on_missing_prediction=packingpolicy.OnMissingPrediction.HOLD)
    assert (ask(document=nowhere, policy=packingpolicy.Spec(queue=holds))[A10].note or "").startswith("it waits")


def test_a_job_that_fits_no_shared_gpu_fits_one_alone() -> None:
    memory = prediction.MemoryRange(q50=kit.GPU_MIB - 100, upper=kit.GPU_MIB - 50)
    document = changed(A10, memory_mib=memory).by_gpu[A10]
    rows = ask(document=DOCUMENT.model_copy(update={"by_gpu": {A10: document}}))
    assert (rows[A10].share, rows[A10].note) == (100, "a whole GPU: no shared one has the memory")


def test_memory_that_is_asked_for_is_booked_and_has_to_fit() -> None:
    assert ask(gpuMemory="10Gi")[A10].memory_mib == 10 * 1024
    assert ask(gpuMemory="100Gi")[A10].note == "not used: it has too little memory"


def test_without_a_cluster_it_is_not_told_how_many_gpus_there_are() -> None:
    assert ask(fleet={})[A10].gpus is None


def test_only_gpus_that_give_shares_count() -> None:
    gpus = [kit.gpu(), kit.gpu("GPU-1", mode="Whole", memoryMiB=20_000), kit.gpu("GPU-2", mode="MIG")]
    found = costs.fleet_of([objects.node_of(kit.gpunode(*gpus))])
    assert found == {A10: costs.Kind(count=2, memory_mib=20_000)}


def test_prices_are_read_by_model() -> None:
    assert costs.prices_of("NVIDIA-H200: 3.5\nTesla-T4: 0\n", source="p") == {"NVIDIA-H200": 3.5, "Tesla-T4": 0.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "[1]",
        "NVIDIA-H200: dear",
        "NVIDIA-H200: -1",
        "NVIDIA-H200: .inf",
        "x: true",
        "A: 1\nA: 2",
        "A: 1:30",
        "A: 2024-02-31",
    ],
)
def test_what_are_no_prices_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"price|YAML"):
        costs.prices_of(text, source="prices.yaml")
