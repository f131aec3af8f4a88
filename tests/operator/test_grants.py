"""What pods are to ask for, by spec, prediction and policy."""

from typing import Any

import pytest

from cotenant_api import dljob, documents, names, packingpolicy, prediction
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_operator.life import granting
from cotenant_operator.state import grants, outcomes
from operator_kit import objects

H200, T4 = GPUModel("NVIDIA-H200"), GPUModel("Tesla-T4")


def spec(**fields: Any) -> dljob.Spec:
    return documents.validated(dljob.Spec, objects.dljob(**fields)["spec"], source="spec")


def policy(**fields: Any) -> packingpolicy.Spec:
    return documents.validated(packingpolicy.Spec, fields, source="spec")


def row(upper: float) -> prediction.GPUPrediction:
    activity = prediction.PercentRange(q50=upper / 2, upper=upper)
    return prediction.GPUPrediction(
        utilization=activity,
        sm_activity=prediction.PercentRange(q50=1, upper=upper / 4),
        dram_activity=activity,
        memory_mib=prediction.MemoryRange(q50=1000, upper=2000),
        step_milliseconds=1.0,
        thread_percentage=50,
        regime=prediction.Regime.COMPUTE,
    )


def predicted(**upper: float) -> outcomes.Predicted:
    by_gpu = {GPUModel(name.replace("_", "-")): row(percent) for name, percent in upper.items()}
    document = prediction.Prediction(
        graph=GraphDigest("sha256:0"), source=prediction.Source.FORMULA, model="formula-1", by_gpu=by_gpu
    )
    return outcomes.Predicted(prediction=document)


def granted(outcome: outcomes.Outcome, rules: packingpolicy.Spec, **fields: Any) -> grants.Grant:
    found = granting.decide(spec(**fields), rules, outcome)
    assert isinstance(found, grants.Grant)
    return found


MISSING = outcomes.Missing(reason="NoModel", message="none")


def test_share_is_the_smallest_over_the_models() -> None:
    assert granted(predicted(NVIDIA_H200=55, Tesla_T4=90), policy()).share == 55


def test_share_counts_the_policys_metric() -> None:
    assert granted(predicted(NVIDIA_H200=55), policy(metric="SMActivity")).share == 14


def test_override_of_one_model_counts_for_it_alone() -> None:
    rules = policy(overrides=[{"gpuModels": ["Tesla-T4"], "maxUtilizationPercent": 300}])
    assert granted(predicted(NVIDIA_H200=55, Tesla_T4=90), rules).share == 30


def test_models_are_annotated_where_the_user_narrows_them() -> None:
    assert granted(predicted(NVIDIA_H200=55), policy(), gpuModels=["NVIDIA-H200"]).gpu_models == "NVIDIA-H200"
    assert granted(predicted(NVIDIA_H200=55), policy()).gpu_models is None


def test_missing_prediction_means_a_gpu_of_its_own() -> None:
    found = granted(MISSING, policy())
    assert (found.share, found.prediction) == (100, None)


def test_missing_prediction_holds_where_the_policy_says_so() -> None:
    found = granting.decide(spec(), policy(queue={"onMissingPrediction": "Hold"}), MISSING)
    assert isinstance(found, granting.Hold)
    assert "onMissingPrediction" in found.message


@pytest.mark.parametrize("fields", [{"sharing": "Exclusive"}, {"gpusPerReplica": 2}])
def test_whole_gpus_need_no_prediction_even_under_hold(fields: dict[str, Any]) -> None:
    found = granted(MISSING, policy(queue={"onMissingPrediction": "Hold"}), **fields)
    assert found.share % 100 == 0


def test_mode_observe_grants_whole_gpus_for_observation() -> None:
    found = granted(predicted(NVIDIA_H200=55), policy(mode="Observe"), gpusPerReplica=2)
    assert (found.gpus, found.observed_only, found.prediction) == (2, True, None)


def test_prediction_too_large_for_an_annotation_loses_its_costliest_models() -> None:
    wide = {f"GPU_{number:02}": float(number % 97 + 1) for number in range(60)}
    found = granted(predicted(**wide), policy())
    assert found.prediction is not None
    assert len(found.prediction.encode()) <= names.MAX_ANNOTATION_BYTES
    kept = prediction.Prediction.from_json(found.prediction, source="x").by_gpu
    assert set(kept) == {f"GPU-{number:02}" for number in range(len(kept))}
    assert found.gpu_models == ",".join(kept)
    assert found.share == 1


def test_share_survives_a_policy_change_while_a_pod_is_bound() -> None:
    old = granted(predicted(NVIDIA_H200=55), policy())
    new = granted(predicted(NVIDIA_H200=55), policy(maxUtilizationPercent=50))
    assert granting.renewed(old, new, bound=True) == old
    assert granting.renewed(old, new, bound=False) == new
    assert granting.renewed(None, new, bound=True) == new


def test_another_prediction_gives_another_share_at_once() -> None:
    old = granted(predicted(NVIDIA_H200=55), policy())
    new = granted(predicted(NVIDIA_H200=70), policy())
    assert granting.renewed(old, new, bound=True) == new


def test_more_whole_gpus_are_granted_at_once() -> None:
    old = granted(MISSING, policy(), gpusPerReplica=2)
    new = granted(MISSING, policy(), gpusPerReplica=4)
    assert granting.renewed(old, new, bound=True) == new


def test_template_without_a_gpu_carries_no_grant() -> None:
    assert grants.read({"spec": {"containers": [{"name": "main"}]}}) is None


def test_prediction_that_somebody_spoiled_is_none() -> None:
    assert grants.Grant(share=1, prediction="{", gpu_models=None).document() is None
    assert grants.Grant(share=1, prediction=None, gpu_models=None).document() is None


def memory(needs: granting.Needs, **fields: Any) -> str | None:
    found = granting.decide(spec(**fields), policy(), predicted(NVIDIA_H200=55, Tesla_T4=90), needs)
    assert isinstance(found, grants.Grant)
    return found.gpu_memory


@pytest.mark.parametrize(
    ("needs", "fields", "expected"),
    [
        (granting.Needs(), {}, None),
        (granting.Needs(), {"gpuMemory": "1Gi"}, "1Gi"),
        (granting.Needs(learned_mib=1500), {}, None),
        (granting.Needs(learned_mib=2500), {}, "2500Mi"),
        (granting.Needs(learned_mib=2500, memory_mib=3000), {}, "3000Mi"),
        (granting.Needs(learned_mib=2500), {"gpuMemory": "8Gi"}, "8Gi"),
        (granting.Needs(memory_mib=9000), {"gpuMemory": "8Gi"}, "9000Mi"),
    ],
)
def test_what_was_learned_only_ever_raises_the_memory_to_book(
    needs: granting.Needs, fields: dict[str, Any], expected: str | None
) -> None:
    assert memory(needs, **fields) == expected


@pytest.mark.parametrize(
    ("memory_mib", "allowed", "expected"),
    [
        (None, [], None),
        (10_000, [], None),
        (20_000, [], "NVIDIA-H200"),
        (900_000, [], "NVIDIA-H200"),
        (20_000, ["Tesla-T4"], "Tesla-T4"),
    ],
)
def test_an_exclusive_attempt_asks_for_gpus_that_are_large_enough(
    memory_mib: int | None, allowed: list[str], expected: str | None
) -> None:
    needs = granting.Needs(memory_mib=memory_mib, exclusive=True, gpu_memory_mib={H200: 143771, T4: 16384})
    found = granting.decide(spec(gpuModels=allowed), policy(), predicted(NVIDIA_H200=55, Tesla_T4=90), needs)
    assert isinstance(found, grants.Grant)
    assert (found.share, found.prediction, found.gpu_models) == (100, None, expected)


@pytest.mark.parametrize(
    ("gpu_memory_mib", "fields", "expected"),
    [
        ({H200: 2400, T4: 1900}, {}, None),
        ({H200: 2050, T4: 1900}, {}, "NVIDIA-H200,Tesla-T4"),
        ({H200: 1500, T4: 900}, {}, "NVIDIA-H200"),
        ({H200: 2400, T4: 1900}, {"gpuModels": ["Tesla-T4"]}, "Tesla-T4"),
    ],
)
def test_what_no_shared_gpu_can_book_gets_one_to_itself_that_it_fits_on(
    gpu_memory_mib: dict[GPUModel, int], fields: dict[str, Any], expected: str | None
) -> None:
    needs = granting.Needs(gpu_memory_mib=gpu_memory_mib)
    found = granting.decide(spec(**fields), policy(), predicted(NVIDIA_H200=55, Tesla_T4=90), needs)
    assert isinstance(found, grants.Grant)
    assert (found.gpu_models, found.prediction is None, found.share == 100) == (
        expected,
        bool(expected),
        bool(expected),
    )


@pytest.mark.parametrize(("gpu_memory_mib", "memory"), [({H200: 900}, None), ({H200: 1500}, "2Gi")])
def test_what_fits_nowhere_or_was_stated_waits_and_says_so(
    gpu_memory_mib: dict[GPUModel, int], memory: str | None
) -> None:
    fields = {"gpuMemory": memory} if memory else {}
    needs = granting.Needs(gpu_memory_mib=gpu_memory_mib)
    found = granting.decide(spec(**fields), policy(), predicted(NVIDIA_H200=55), needs)
    assert isinstance(found, grants.Grant)
    assert (found.share, found.gpu_memory) == (100, memory)
    assert found.prediction is not None


def test_a_bound_workload_keeps_its_share_and_gets_the_memory_that_the_user_changed() -> None:
    old = grants.Grant(share=40, prediction="{}", gpu_models=None, gpu_memory="1Gi")
    new = grants.Grant(share=50, prediction="{}", gpu_models=None, gpu_memory="2Gi")
    kept = granting.renewed(old, new, bound=True)
    assert (kept.share, kept.gpu_memory) == (40, "2Gi")
