"""ONNX files: stripped in the pod, read by the operator; what is damaged or hostile is told and nothing worse."""

import gzip
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_operator.parsing import onnx_files, tasks
from cotenant_operator.state.extractions import job as read_job
from cotenant_predictor.extraction import onnx_strip
from cotenant_predictor.extraction.onnx_reader import document, wire
from operator_kit import extractions
from operator_kit.cluster import Cluster
from predictor_kit import onnx_models as onnx

Json = dict[str, Any]

KEY = "model.onnx.gz"


def packed(*, width: int | str = 64) -> bytes:
    nodes = [onnx.node("MatMul", "x w", "h"), onnx.node("Relu", "h", "y")]
    made = onnx.model(nodes, {"x": ["batch", width]}, [onnx.weight("w", [64, 10])])
    return gzip.compress(onnx_strip.stripped(made.SerializeToString()), mtime=0)


async def extracted(cluster: Cluster, content: bytes, **spec: Any) -> Json:
    """The condition Predicted when the pod has written this."""
    cluster.apply(extractions.dljob(model=extractions.ONNX, **spec))
    await cluster.settle()
    extractions.start(cluster)
    extractions.write(cluster, content, key=KEY)
    extractions.succeed(cluster)
    await cluster.settle()
    return cluster.condition("Predicted")


async def test_file_is_read_and_the_job_is_made_from_it(cluster: Cluster) -> None:
    found = await extracted(cluster, packed(), workloadType="Inference")
    assert found["status"] == "True"
    assert len(cluster.server.all("deployments")) == 1


async def test_open_dimension_is_told_in_words_of_the_spec_and_a_shape_mends_it(cluster: Cluster) -> None:
    spec = {"queue": {"onMissingPrediction": "Hold"}}
    cluster.set_policy(**spec)
    found = await extracted(cluster, packed(width="tokens"))
    assert found["reason"] == "GraphUnreadable"
    assert "spec.inputShapes" in found["message"]
    assert "--input-shape" not in found["message"]
    shapes = [{"name": "x", "dims": [64, 64]}]
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], "inputShapes": shapes}))
    await cluster.settle()
    assert cluster.condition("Predicted")["status"] == "True"
    assert not any(read_job(job).number > 1 for job in extractions.jobs(cluster))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        packed()[:-9],
        gzip.compress(b"", mtime=0),
        gzip.compress(b"hello", mtime=0),
        gzip.compress(b"\0" * (wire.MAX_BYTES + 1), mtime=0),
        b"\x1f\x8b" + b"0" * (512 * 1024),
    ],
)
async def test_what_is_no_such_file_is_unreadable_and_not_an_error(cluster: Cluster, content: bytes) -> None:
    found = await extracted(cluster, content)
    assert (found["status"], found["reason"]) == ("False", "GraphUnreadable")
    assert [job["metadata"]["name"] for job in cluster.attempts()] == ["train-1"]


def test_fault_of_the_library_is_told_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(document, "extract", fail)
    wanted = tasks.ONNX(name="x", batch_size=1, mode="Training", precision="fp32")
    with pytest.raises(errors.InvalidInputError, match="RecursionError: 'too deep'"):
        onnx_files.graph_of(packed(), wanted, source="x")
