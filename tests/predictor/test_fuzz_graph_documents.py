"""Whatever bytes a graph, measurement or prediction document has: it is read, or refused with a place and a remedy."""

import gzip
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import errors
from cotenant_api.graph import MAX_BYTES, MAX_COUNT, Graph
from cotenant_api.measurement import Measurement
from cotenant_api.prediction import Prediction
from cotenant_predictor import devices
from cotenant_predictor.jobs import features, prediction

OPERATOR = {
    "class": "conv",
    "name": "aten::convolution",
    "phase": "Forward",
    "flops": 10**9,
    "bytesRead": 10**6,
    "dims": {"b": 1, "groups": 1},
}
GRAPH: dict[str, Any] = {
    "v": 1,
    "name": "x",
    "mode": "Training",
    "batchSize": 2,
    "parameters": 5,
    "parameterBytes": 20,
    "host": {"samplesPerSecond": 5.0},
    "operators": [OPERATOR],
    "coverage": {"unknown": {"aten::foo": 1}},
}
ENVIRONMENT = dict.fromkeys(("driver", "cuda", "torch", "cpu", "commit"), "x")
DISTRIBUTION = {"mean": 1.0, "p50": 1.0, "p99": 2.0, "std": 0.1}
UNMEASURED = (
    "memoryUtilization smActivity dramActivity memoryPeakMiB normalizedSpeed powerWatts turnaroundMilliseconds "
)
UNMEASURED += "hostToDeviceMilliseconds longKernelShare largeKernelShare"
MEASUREMENT: dict[str, Any] = {
    "v": 1,
    "id": "a",
    "group": "g",
    "graph": "sha256:0",
    "gpuModel": "NVIDIA-H200",
    "mechanism": "Alone",
    "durationSeconds": 1.0,
    "outcome": "Ok",
    "simulated": False,
    "values": {"utilization": 50.0, "stepMilliseconds": DISTRIBUTION},
    "reasons": dict.fromkeys(UNMEASURED.split(), "not measured"),
    "environment": ENVIRONMENT,
}
RANGE = {"q50": 1.0, "upper": 2.0}
GPU: dict[str, Any] = {
    "utilization": RANGE,
    "smActivity": RANGE,
    "dramActivity": RANGE,
    "memoryMiB": {"q50": 1, "upper": 2},
}
GPU |= {"stepMilliseconds": 1.0, "threadPercentage": 50, "regime": "Compute"}
PREDICTION: dict[str, Any] = {
    "v": 1,
    "graph": "sha256:0",
    "source": "Model",
    "model": "m",
    "byGPU": {"NVIDIA-H200": GPU},
}
DOCUMENTS: list[tuple[Any, dict[str, Any]]] = [(Graph, GRAPH), (Measurement, MEASUREMENT), (Prediction, PREDICTION)]

NASTY = st.one_of(
    st.sampled_from(
        [None, True, "", -1, 0, 2**63, 10**30, 1e308, 1e-320, float("nan"), float("inf"), [], {}, "\ud800", "1", "NaN"]
    ),
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda each: st.lists(each, max_size=3), max_leaves=8
    ),
    st.dictionaries(st.text(max_size=5), st.integers() | st.floats() | st.text(max_size=5), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in steps for place in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The document with something else there."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def accepted(kind: Any, data: bytes) -> bool:
    """Whether the bytes are a document, which can then be written and read again; else they are refused by place."""
    try:
        found = kind.read(data, source="x") if kind is Graph else kind.from_json(data, source="x")
    except errors.InvalidInputError as error:
        refusal = error
    else:
        assert kind.from_json(found.to_json().encode(), source="again") == found
        return True
    assert refusal.field.startswith("x")
    assert len(str(refusal)) < 2000
    return False


@pytest.mark.parametrize(("kind", "document"), DOCUMENTS)
def test_the_document_that_is_changed_below_is_read(kind: Any, document: Any) -> None:
    assert accepted(kind, json.dumps(document).encode())


@pytest.mark.parametrize(("kind", "document"), DOCUMENTS)
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(kind: Any, document: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(places(document)))
    accepted(kind, json.dumps(replaced(document, path, data.draw(NASTY))).encode())


@pytest.mark.parametrize(("kind", "document"), DOCUMENTS)
@given(data=st.data())
def test_damaged_text_is_read_or_refused(kind: Any, document: Any, data: st.DataObject) -> None:
    text = bytearray(json.dumps(document).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        text[start : start + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    accepted(kind, bytes(text))


@given(data=st.data())
def test_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(json.dumps(GRAPH).encode(), mtime=0))
    start = data.draw(st.integers(0, len(packed) - 1))
    packed[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    accepted(Graph, bytes(packed))


@given(data=st.data())
def test_every_graph_that_is_read_can_be_predicted(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([place for place in places(GRAPH) if place]))
    size = st.integers(0, 10**18) | st.floats(1e-6, 1e12) | st.sampled_from([0, 1, 10**18])
    text = json.dumps(replaced(GRAPH, path, data.draw(size))).encode()
    if accepted(Graph, text):
        found = prediction.predict(Graph.read(text, source="x"), devices.select(["NVIDIA-H200"]))
        assert accepted(Prediction, found.to_json().encode())


def test_the_largest_amounts_have_finite_features() -> None:
    most = dict.fromkeys(("flops", "bytesRead", "bytesWritten", "outputElements", "repeat"), MAX_COUNT)
    text = json.dumps(GRAPH | {"operators": [OPERATOR | most], "savedActivationBytes": MAX_COUNT})
    step = prediction.step_of(Graph.read(text.encode(), source="x"), devices.select(["NVIDIA-H200"]))
    assert np.isfinite(features.rows_of(step)).all()


@pytest.mark.parametrize("depth", [*range(900, 1000, 5), 10_000, 1_000_000])
@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_refused(depth: int, opened: bytes, closed: bytes) -> None:
    inside = b"1" if closed == b"}" else b""
    assert not accepted(Graph, b'{"name":' + opened * depth + inside + closed * depth + b"}")


@pytest.mark.parametrize(
    "content",
    [
        b" " * (MAX_BYTES + 1),
        b"[" + b"[]," * 22_000_000 + b"[]]",
        b'{"a":[' + b'"ab",' * 12_000_000 + b"1]}",
        b'{"a":[' + b"1.5," * 15_000_000 + b"1]}",
    ],
    ids=["blanks", "lists", "texts", "numbers"],
)
def test_small_archive_does_not_become_large(content: bytes) -> None:
    packed = gzip.compress(content, compresslevel=1)
    del content
    tracemalloc.start()
    try:
        assert not accepted(Graph, packed)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_BYTES
    finally:
        tracemalloc.stop()


def test_more_operators_than_a_graph_may_have_are_refused() -> None:
    text = json.dumps({**GRAPH, "operators": [{"class": "conv", "name": "a", "phase": "Forward"}] * 1_000_000})
    with pytest.raises(errors.InvalidInputError, match="must be a graph of at most"):
        Graph.read(text.encode(), source="x")


def test_first_of_many_wrong_operators_is_named() -> None:
    text = json.dumps({**GRAPH, "operators": [OPERATOR, *[{"class": "q"}] * 50_000]})
    with pytest.raises(errors.InvalidInputError, match=r"^x\.operators\[1\]\.class: 'q'"):
        Graph.read(text.encode(), source="x")


@pytest.mark.parametrize("value", [10**18 + 1, 2**63, 10**400, -1, float("nan"), float("inf"), 0.5])
@pytest.mark.parametrize(
    "path",
    [("parameters",), ("operators", 0, "flops"), ("operators", 0, "dims", "b"), ("coverage", "unknown", "aten::foo")],
)
def test_amount_that_no_job_has_is_refused_with_its_place(path: tuple[Any, ...], value: object) -> None:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    with pytest.raises(errors.InvalidInputError) as raised:
        Graph.from_object(replaced(GRAPH, path, value), source="x")
    assert raised.value.field == f"x{place}"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_character_is_refused(text: str) -> None:
    for path in (("name",), ("framework",), ("operators", 0, "dtype")):
        document = replaced({**GRAPH, "framework": "torch"}, path[:1], text) if len(path) == 1 else GRAPH
        document = replaced(document, ("operators", 0), {**OPERATOR, "dtype": text}) if len(path) > 1 else document
        with pytest.raises(errors.InvalidInputError, match="surrogates not allowed"):
            Graph.read(json.dumps(document).encode(), source="x")
    with pytest.raises(errors.InvalidInputError, match="must be JSON"):
        Graph.read(json.dumps({**GRAPH, "name": text}, ensure_ascii=False).encode("utf-8", "surrogatepass"), source="x")


def test_character_of_two_halves_is_read() -> None:
    assert Graph.read(json.dumps({**GRAPH, "name": "\U0001f600"}).encode(), source="x").name == "\U0001f600"


@pytest.mark.parametrize("version", [2.0, "2", True, None, [1]])
def test_version_that_is_no_integer_is_refused(version: object) -> None:
    for kind, document in DOCUMENTS:
        with pytest.raises(errors.InvalidInputError, match=r"^x\.v: .* must be an integer"):
            kind.from_object({**document, "v": version}, source="x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "fast", [1.0]])
@pytest.mark.parametrize(
    "path", [("durationSeconds",), ("values", "utilization"), ("values", "stepMilliseconds", "p99")], ids=".".join
)
def test_measurement_that_is_none_is_refused_with_its_place(path: tuple[str, ...], value: object) -> None:
    line = json.dumps(replaced(MEASUREMENT, path, value))
    with pytest.raises(errors.InvalidInputError) as raised:
        Measurement.from_json(line, source="x")
    assert raised.value.field == "x." + ".".join(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_prediction_that_is_none_is_refused_with_its_place(value: float) -> None:
    path = ("byGPU", "NVIDIA-H200", "utilization", "upper")
    with pytest.raises(errors.InvalidInputError) as raised:
        Prediction.from_json(json.dumps(replaced(PREDICTION, path, value)), source="x")
    assert raised.value.field == "x." + ".".join(path)
