"""Pods that no GPU of the cluster could take, however empty, are told so, and what to ask for instead."""

import pytest

from cotenant_api import names
from cotenant_api.pod import PackedReason
from extender import builders
from extender.builders import H200, T4
from extender.queueing import member, run, told

HUGE = {names.GPU_MEMORY: "900Gi"}


def asks(**notes: str) -> tuple[PackedReason, str]:
    """What one pod is told in a cluster of two nodes, with two H200 and two T4."""
    source = builders.cluster(nodes=1)
    builders.add_node(source, "t4", model=T4)
    builders.put(
        source, builders.pod("a", 20, annotations={f"{names.GROUP}/{key}": text for key, text in notes.items()})
    )
    return told(source, "a")


def test_more_memory_than_any_gpu_has_never_fits() -> None:
    reason, message = asks(**{"gpu-memory": "900Gi"})
    assert reason is PackedReason.NEVER_FITS
    assert "asks for 900.0 GiB of GPU memory, and no GPU that it may use has more than 133.3 GiB to book" in message
    assert "ask for less, or add a larger GPU" in message


def test_the_gpus_of_other_models_do_not_count() -> None:
    reason, message = asks(**{"gpu-memory": "40Gi", "gpu-models": T4})
    assert reason is PackedReason.NEVER_FITS
    assert "no GPU that it may use has more than 14.2 GiB to book" in message


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("H200", f"no node has a GPU of model H200: did you mean {H200}?"),
        ("nvidia-h200", f"no node has a GPU of model nvidia-h200: did you mean {H200}?"),
        ("T4", f"no node has a GPU of model T4: did you mean {T4}?"),
        ("V100", f"no node has a GPU of model V100: nodes have {H200}, {T4}"),
    ],
)
def test_a_model_that_no_node_has_is_answered_with_the_one_that_may_be_meant(asked: str, answer: str) -> None:
    reason, message = asks(**{"gpu-models": asked})
    assert reason is PackedReason.GPU_MODEL_MISMATCH
    assert message.startswith(answer)


def test_more_gpus_than_any_node_has_never_fit() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a", 800))
    reason, message = told(source, "a")
    assert reason is PackedReason.NEVER_FITS
    assert message.startswith("asks for 8 GPUs of one node, and no node has more than 2 that it may use")


def test_a_gang_is_told_what_no_gpu_has_for_one_of_its_pods() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, *(member(name, 20, size=2, annotations=HUGE | builders.gang("g", 2)) for name in ("a", "b")))
    run(source)
    assert told(source, "a")[0] is PackedReason.NEVER_FITS


def test_what_an_empty_gpu_would_take_waits_for_memory() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    builders.put(source, builders.bound("b", 60, "n0", "GPU-n0-0", memory_mib=100_000))
    builders.put(source, builders.pod("a", 20, annotations={names.GPU_MEMORY: "60Gi"}))
    assert told(source, "a")[0] is not PackedReason.NEVER_FITS
