"""A PackingPolicy from a file."""

import json

import pytest

from cotenant_api import errors, packingpolicy
from cotenant_simulator.cluster import proposal
from simulator import objects_kit as kit


def read(**spec: object) -> packingpolicy.PackingPolicy:
    return proposal.read(json.dumps(kit.policy(**spec)), source="p.yaml")


def test_a_policy_is_read_as_the_api_server_would() -> None:
    found = read(maxTenantsPerGPU=2, queue={"order": "FIFO"}, overrides=[{"gpuModels": ["A"], "metric": "SMActivity"}])
    assert found.spec.max_tenants_per_gpu == 2
    assert found.spec.queue.order is packingpolicy.Order.FIFO


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"maxTenants": 3}, r"p.yaml: spec.maxTenants: 3: is no field"),
        ({"queue": {"ordr": "FIFO"}}, r"p.yaml: spec.queue.ordr"),
        ({"overrides": [{"gpuModels": ["A"], "x": 1}]}, r"p.yaml: spec.overrides\[0\].x"),
        ({"maxTenantsPerGPU": 99}, r"p.yaml: PackingPolicy.spec.maxTenantsPerGPU: 99"),
        ({"placement": "Best"}, r"p.yaml: PackingPolicy.spec.placement"),
        ({"queue": 3}, r"p.yaml: spec.queue: 3: must be an object"),
    ],
)
def test_a_field_that_is_unknown_or_wrong_is_refused_with_file_and_path(spec: dict[str, object], path: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=path):
        read(**spec)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[]", "p.yaml"),
        ("a: [", "--policy: 'p.yaml': must be YAML"),
        ("a: 1\na: 2", "line 2: key 'a' is there twice"),
        ("a: 2024-13-01", "p.yaml: apiVersion"),
        (json.dumps(kit.policy() | {"metadata": "foo"}), "p.yaml: metadata: 'foo': must be an object"),
        ("kind: Policy", "p.yaml: apiVersion"),
        (json.dumps(kit.policy() | {"kind": "DLJob"}), "p.yaml: kind: 'DLJob'"),
        (json.dumps(kit.policy() | {"metadata": {"name": "other"}}), "p.yaml: metadata.name"),
    ],
)
def test_what_is_no_packing_policy_is_refused(text: str, path: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=path):
        proposal.read(text, source="p.yaml")


def test_a_paused_policy_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"p.yaml: spec.paused: True: must be false"):
        proposal.require_simulated(read(paused=True), field="p.yaml")


def test_changes_are_the_fields_that_differ_alone() -> None:
    before, after = read(maxTenantsPerGPU=2), read(paused=False, queue={"order": "FIFO"})
    assert proposal.changes(before, after) == [
        ("spec.maxTenantsPerGPU", "2", "3"),
        ("spec.queue.order", "DecreasingShare", "FIFO"),
    ]
