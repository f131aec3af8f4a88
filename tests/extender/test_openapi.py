"""The service keeps what its OpenAPI schema says, whatever it is sent; the schema is complete."""

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.schemas import BaseSchema

from cotenant_api import names
from cotenant_extender.kube import pods
from extender import builders, running, serving

Object = dict[str, Any]

KEPT: list[Any] = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
NODES = ("n0", "n1", "n2")
VERBS = ("/scheduler/filter", "/scheduler/prioritize", "/scheduler/bind")
PLAIN = ("/healthz", "/readyz", "/metrics", "/explain")
STANDING = {
    "gated": builders.pod("gated", gates=(names.PACKING_GATE, "other")),
    "free": builders.pod("free", gates=()),
    "whole": builders.pod("whole", 200, gates=()),
    "placed": builders.bound("placed", 40, "n0", "GPU-n0-0"),
    "invalid": builders.pod("invalid", gates=(), annotations={names.GPU_MEMORY: "x"}),
}


@pytest.fixture(scope="module")
def schema() -> Iterator[BaseSchema]:
    """The schema of an extender that serves, with nodes and pods."""
    server = running.server(nodes=3)
    for pod in STANDING.values():
        server.put(pods.PODS, pod)
    with serving.serving(server) as served:
        yield schemathesis.openapi.from_asgi("/openapi.json", served)


def known(body: Any, data: st.DataObject) -> Any:
    """Some of what is asked is about pods and nodes that there are."""
    if not isinstance(body, dict) or not data.draw(st.booleans()):
        return body
    pod = data.draw(st.sampled_from(list(STANDING.values())))
    node = data.draw(st.sampled_from(NODES))
    if "PodUID" in body:
        metadata = pod["metadata"]
        return body | {
            "PodUID": metadata["uid"],
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "Node": node,
        }
    return body | {"Pod": pod, "Nodes": None, "NodeNames": [node]}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", VERBS)
def test_a_verb_answers_as_its_schema_says(schema: BaseSchema, path: str, mode: GenerationMode) -> None:
    @hypothesis.settings(max_examples=25, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=schema[path]["POST"].as_strategy(generation_mode=mode), data=st.data())
    def ask(case: schemathesis.Case[Any], data: st.DataObject) -> None:
        case.body = known(case.body, data)
        case.call_and_validate(checks=KEPT)

    ask()


@pytest.mark.parametrize("path", PLAIN)
def test_what_is_read_is_as_its_schema_says(schema: BaseSchema, path: str) -> None:
    assert schema[path]["GET"].Case().call_and_validate(checks=KEPT).status_code == 200


def test_every_path_is_described(schema: BaseSchema) -> None:
    assert {*VERBS, *PLAIN} == set(schema)
