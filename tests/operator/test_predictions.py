"""Where graphs come from, bad input among them, and which GPU models a prediction is for."""

import asyncio
import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest

from cotenant_api import dljob, documents, errors, graph
from cotenant_api.names import GPUModel
from cotenant_operator import reasons
from cotenant_operator.graphs import predictions, sources
from cotenant_operator.parsing import tasks
from cotenant_operator.state import outcomes, views
from cotenant_predictor import devices
from operator_kit import objects
from operator_kit.parsing import Inline

Json = dict[str, Any]

KEY = views.Key("team", "train")
H200, T4 = GPUModel("NVIDIA-H200"), GPUModel("Tesla-T4")
KNOWN = devices.load()
COMPUTE_BF16 = {name for name, device in KNOWN.items() if "bf16" in device.peak_teraflops}
"""The models that the graph of these tests is not out of domain on."""


def spec(**fields: Any) -> dljob.Spec:
    return documents.validated(dljob.Spec, objects.dljob(**fields)["spec"], source="spec")


class ConfigMaps:
    """ConfigMaps by name, and how often they were read."""

    def __init__(self, *found: Json) -> None:
        self.found = {item["metadata"]["name"]: item for item in found}
        self.reads = 0

    async def __call__(self, key: views.Key) -> Mapping[str, Any] | None:
        """Read one."""
        self.reads += 1
        return self.found.get(key.name)


async def outcome_of(*config_maps: Json, present: tuple[GPUModel, ...] = (), **fields: Any) -> outcomes.Outcome:
    predictor = predictions.Predictor(ConfigMaps(*config_maps), parser=Inline(KNOWN))
    return await predictor.outcome(KEY, spec(**fields), present=present)


def missing(outcome: outcomes.Outcome) -> outcomes.Missing:
    assert isinstance(outcome, outcomes.Missing)
    return outcome


def models(outcome: outcomes.Outcome) -> set[str]:
    assert isinstance(outcome, outcomes.Predicted), outcome
    return set(outcome.prediction.by_gpu)


async def test_gzipped_graph_is_predicted_for_all_models_of_an_empty_cluster_that_are_in_its_domain() -> None:
    assert models(await outcome_of(objects.config_map())) == COMPUTE_BF16


async def test_only_the_models_of_the_cluster_are_predicted_for() -> None:
    found = await outcome_of(objects.config_map(), present=(H200, GPUModel("NVIDIA-Unheard")))
    assert models(found) == {H200}


async def test_wanted_models_win_over_those_of_the_cluster() -> None:
    assert models(await outcome_of(objects.config_map(), present=(H200,), gpuModels=["NVIDIA-L4"])) == {"NVIDIA-L4"}


async def test_plain_graph_in_data_is_read() -> None:
    config_map = {"metadata": {"name": "toy"}, "data": {"graph.json": objects.toy_graph().to_json()}}
    found = await outcome_of(config_map, model={"configMapRef": {"name": "toy", "key": "graph.json"}})
    assert models(found) == COMPUTE_BF16


async def test_inline_graph_is_read() -> None:
    assert models(await outcome_of(model={"features": objects.toy_graph().to_object()})) == COMPUTE_BF16


async def test_inline_graph_that_is_too_large_says_where_to_put_it() -> None:
    features = objects.toy_graph().to_object() | {"padding": "x" * graph.MAX_INLINE_BYTES}
    found = missing(await outcome_of(model={"features": features}))
    assert found.reason == reasons.GRAPH_UNREADABLE
    assert "use configMapRef" in found.message


async def test_graph_is_predicted_once_in_a_namespace() -> None:
    read = ConfigMaps(objects.config_map())
    parser = Inline(KNOWN)
    predictor = predictions.Predictor(read, parser=parser)
    for namespace in ("team", "team", "other"):
        await predictor.outcome(views.Key(namespace, "train"), spec(), present=())
    assert parser.count(tasks.Kind.PREDICTION) == 2
    assert read.reads == 3


async def test_who_asks_for_the_same_while_it_is_predicted_waits_for_it() -> None:
    parser = Inline(KNOWN)
    predictor = predictions.Predictor(ConfigMaps(objects.config_map()), parser=parser)
    found = await asyncio.gather(*(predictor.outcome(KEY, spec(), present=()) for _ in range(8)))
    assert parser.count(tasks.Kind.PREDICTION) == 1
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        ({"model": None}, "NoModel", "cotenant extract"),
        ({"model": {}}, "NoModel", "cotenant extract"),
        ({"model": {"onnx": {"path": "/m.onnx"}}, "precision": "int8"}, "ModelSourceNotSupported", "one of fp32, tf32"),
        ({"model": {"entrypoint": {"callable": "a:b"}}, "precision": "fp8"}, "ModelSourceNotSupported", "configMapRef"),
        ({"model": {"configMapRef": {"name": "gone"}}}, "ConfigMapNotFound", "ConfigMap gone does not exist"),
        ({"model": {"configMapRef": {"name": "toy", "key": "x"}}}, "ConfigMapNotFound", "has no key x"),
        ({"model": {"features": {"v": 1}}}, "GraphUnreadable", "spec.model.features"),
        ({"model": {"features": {"v": 99}}}, "GraphUnreadable", "upgrade"),
        ({"gpuModels": ["NVIDIA-H200", "Voodoo2"]}, "UnknownGPUModel", "Voodoo2 is not known; known are NVIDIA-A10"),
    ],
)
async def test_what_cannot_be_predicted_says_what_to_do(fields: Json, reason: str, words: str) -> None:
    found = missing(await outcome_of(objects.config_map(), **fields))
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[1,2]",
        b"{}",
        b"\x1f\x8bbroken",
        objects.toy_graph().packed()[:-9],
        gzip.compress(b'{"v":1,"name":""}', mtime=0),
        json.dumps({**objects.toy_graph().to_object(), "digest": "sha256:0"}).encode(),
        b"[" * 100_000,
        b"\x1f\x8b" + b"0" * graph.MAX_COMPRESSED_BYTES,
    ],
)
async def test_damaged_graph_is_unreadable_and_not_an_error(data: bytes) -> None:
    found = missing(await outcome_of(objects.config_map(data=data)))
    assert found.reason == "GraphUnreadable"
    assert "extract it again" in found.message
    assert found.may_come
    assert len(found.message) < 1024


async def test_binary_data_that_is_no_base64_is_unreadable() -> None:
    config_map = {"metadata": {"name": "toy"}, "binaryData": {"graph.json.gz": "%%%"}}
    assert missing(await outcome_of(config_map)).reason == "GraphUnreadable"


async def test_job_that_fits_no_gpu_is_out_of_domain() -> None:
    large = objects.toy_graph().model_copy(update={"digest": "", "saved_activation_bytes": 10**13}).sealed()
    found = missing(await outcome_of(objects.config_map(data=large.packed())))
    assert found.reason == "OutOfDomain"


async def test_cluster_of_unknown_models_alone_has_no_prediction() -> None:
    found = missing(await outcome_of(objects.config_map(), present=(GPUModel("Voodoo2"),)))
    assert found.reason == "UnknownGPUModel"
    assert found.may_come


async def test_temporary_trouble_is_not_taken_for_a_missing_graph() -> None:
    async def unreachable(_: views.Key) -> None:
        raise errors.TemporaryError("no answer", delay_seconds=1)

    with pytest.raises(errors.TemporaryError, match="no answer"):
        await predictions.Predictor(unreachable, parser=Inline(KNOWN)).outcome(KEY, spec(), present=())


@pytest.mark.parametrize(
    ("resources", "cores"),
    [
        ({}, None),
        ({"limits": {"cpu": "1500m"}}, 1.5),
        ({"requests": {"cpu": "1"}}, None),
        ({"limits": {"cpu": "x"}}, None),
    ],
)
def test_cores_are_the_cpu_limit_of_the_container(resources: Json, cores: float | None) -> None:
    template = {"spec": {"containers": [{"name": "side"}, {"name": "main", "resources": resources}]}}
    assert predictions.cpu_cores(spec(container="main", template=template)) == cores


def test_config_map_lists_the_keys_that_it_has() -> None:
    config_map = {"data": {"a": ""}, "binaryData": {"b": base64.b64encode(b"").decode()}}
    found = sources.from_config_map(dljob.ConfigMapRef(name="toy", key="c"), config_map)
    assert isinstance(found, outcomes.Missing)
    assert "(it has a, b)" in found.message


@pytest.mark.parametrize(
    ("mode", "own", "expected"),
    [("Inference", None, 20.0), ("Inference", 3.0, 3.0), ("Training", None, None)],
)
async def test_declared_requests_fill_in_what_a_graph_leaves_open(
    mode: str, own: float | None, expected: float | None
) -> None:
    load = None if own is None else graph.Inference(requests_per_second=own)
    stored = objects.toy_graph().model_copy(update={"mode": graph.Mode(mode), "inference": load}).sealed()
    asked = spec(workloadType="Inference", slo={"requestsPerSecond": "20"})
    config_maps = ConfigMaps(objects.config_map(data=stored.packed()))
    parser = Inline(KNOWN)
    predictor = predictions.Predictor(config_maps, parser=parser)
    document = await predictor.document(KEY, asked, result=None)
    assert isinstance(document, tasks.Answer)
    found = graph.Graph.read(base64.b64decode(document.packed or ""), source="test").inference
    assert (None if found is None else found.requests_per_second) == expected
    first = await predictor.outcome(KEY, asked, present=(H200,))
    assert await predictor.outcome(KEY, asked, present=(H200,)) == first
    assert parser.count(tasks.Kind.PREDICTION) == 1


async def test_refused_graph_is_not_read_again_by_an_operator_that_finds_it_in_the_status() -> None:
    first, again = Inline(KNOWN), Inline(KNOWN)
    read = ConfigMaps(objects.config_map(data=b"{}"))
    found = missing(await predictions.Predictor(read, parser=first).outcome(KEY, spec(), present=()))
    assert found.refused is not None
    known = dljob.RefusedGraph(digest=found.refused, message=found.message)
    later = predictions.Predictor(read, parser=again)
    assert await later.outcome(KEY, spec(), present=(), refused=known) == found
    assert again.asked == []


async def test_refused_graph_that_has_changed_is_read() -> None:
    parser = Inline(KNOWN)
    known = dljob.RefusedGraph(digest="sha256:0", message="it was refused")
    predictor = predictions.Predictor(ConfigMaps(objects.config_map()), parser=parser)
    assert models(await predictor.outcome(KEY, spec(), present=(), refused=known)) == COMPUTE_BF16
    assert len(parser.asked) == 1


async def test_other_release_reads_again_what_the_former_refused() -> None:
    found = []
    for version in ("1", "2"):
        parser = Inline(KNOWN)
        parser.ready = parser.ready.model_copy(update={"version": version})
        predictor = predictions.Predictor(ConfigMaps(objects.config_map(data=b"{}")), parser=parser)
        found.append(missing(await predictor.outcome(KEY, spec(), present=())).refused)
    assert found[0] != found[1]


async def test_fault_of_ours_is_no_verdict() -> None:
    class Faulty(Inline):
        async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
            await super().ask(namespace, task, data)
            return tasks.failed("no memory on the node")

    parser = Faulty(KNOWN)
    predictor = predictions.Predictor(ConfigMaps(objects.config_map()), parser=parser)
    for _ in range(2):
        found = missing(await predictor.outcome(KEY, spec(), present=()))
        assert (found.message, found.may_come, found.refused) == ("no memory on the node", True, None)
    assert len(parser.asked) == 2


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (b"\x1f\x8b" + b"0" * graph.MAX_COMPRESSED_BYTES, "may have 131072: extract a smaller part of the model"),
        (b"{" + b" " * sources.MAX_PLAIN_BYTES, "may have 262144: store it gzipped, in binaryData"),
    ],
)
async def test_document_that_is_too_large_is_not_even_looked_at(data: bytes, remedy: str) -> None:
    parser = Inline(KNOWN)
    predictor = predictions.Predictor(ConfigMaps(objects.config_map(data=data)), parser=parser)
    found = missing(await predictor.outcome(KEY, spec(), present=()))
    assert f"key graph.json.gz: is {len(data)} bytes and {remedy}" in found.message
    assert parser.asked == []


async def test_fewer_requests_take_less_of_a_gpu() -> None:
    stored = objects.toy_graph().model_copy(update={"mode": graph.Mode.INFERENCE}).sealed()
    config_map = objects.config_map(data=stored.packed())
    rows = []
    for rate in ("1", "100000"):
        asked: Json = {"workloadType": "Inference", "slo": {"requestsPerSecond": rate}}
        found = await outcome_of(config_map, present=(H200,), **asked)
        assert isinstance(found, outcomes.Predicted)
        rows.append(found.prediction.by_gpu[H200].utilization.q50)
    assert rows[0] < rows[1]
