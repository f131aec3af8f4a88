"""CustomResourceDefinitions: generated, structural, and equal to the files."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant_api import dljob, errors
from cotenant_api.commands import crds
from cotenant_api.crds import definitions, rules

MANIFESTS = Path(__file__).parents[2] / "manifests" / "crds"
NOTHING: dict[str, Any] = {"write": None, "check": None, "reference": None, "check_reference": None}
Schema = dict[str, Any]


def schemas(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}".lstrip("."))
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(key), dict):
            yield from schemas(node[key], path + suffix)


def openapi(kind: definitions.Kind) -> Schema:
    version: Schema = definitions.definition(kind)["spec"]["versions"][0]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


every_kind = pytest.mark.parametrize("kind", definitions.KINDS, ids=lambda kind: kind.kind)


def test_the_committed_files_are_what_the_types_say() -> None:
    crds.run(Namespace(**NOTHING | {"check": MANIFESTS}))
    assert {path.name for path in MANIFESTS.iterdir()} == set(crds.rendered())


def test_an_outdated_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    crds.run(Namespace(**NOTHING | {"write": tmp_path}))
    outdated = tmp_path / "cotenant.dev_dljobs.yaml"
    outdated.write_text("{}")
    with pytest.raises(
        errors.PermanentError, match=r"cotenant\.dev_dljobs\.yaml is outdated: run `cotenant crds --write"
    ):
        crds.run(Namespace(**NOTHING | {"check": tmp_path}))


@every_kind
def test_every_node_has_one_type(kind: definitions.Kind) -> None:
    for path, node in schemas(openapi(kind)):
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "allOf", "oneOf", "title", "const"} & set(node), path


@every_kind
def test_every_list_is_bounded_so_that_rules_have_a_cost(kind: definitions.Kind) -> None:
    for path, node in schemas(openapi(kind)):
        if node.get("type") == "array":
            assert "maxItems" in node, path


@every_kind
def test_every_rule_stands_at_a_path_that_exists(kind: definitions.Kind) -> None:
    paths = {path for path, _ in schemas(openapi(kind))}
    assert set(kind.refinement.rules) | set(kind.refinement.keywords) <= paths


@every_kind
def test_no_field_of_a_status_is_defaulted(kind: definitions.Kind) -> None:
    assert all("default" not in node for path, node in schemas(openapi(kind)["properties"]["status"]) if path)


def test_a_dljob_that_nobody_has_looked_at_says_so() -> None:
    """What has no status is current for kstatus."""
    kind = next(kind for kind in definitions.KINDS if kind.kind == "DLJob")
    default = openapi(kind)["properties"]["status"]["default"]
    assert default == {"observedGeneration": dljob.NEVER_OBSERVED}
    assert dljob.Status.model_validate(default) == dljob.Status()


@every_kind
def test_status_is_a_subresource(kind: definitions.Kind) -> None:
    found = definitions.definition(kind)["spec"]["versions"][0]["subresources"]
    assert found["status"] == {}
    assert ("scale" in found) is (kind.kind == "DLJob")


@every_kind
def test_every_field_that_a_person_writes_is_explained(kind: definitions.Kind) -> None:
    spec = openapi(kind)["properties"]["spec"]["properties"]
    assert [name for name, node in spec.items() if not node.get("description")] == []


def test_every_field_of_a_dljob_is_explained() -> None:
    inside = {
        path: node for path, node in schemas(openapi(definitions.KINDS[0])) if path.startswith(("spec.", "status."))
    }
    fields = {path: node for path, node in inside.items() if not path.startswith("spec.template.")}
    assert [path for path, node in fields.items() if path[-1] not in "]}" and not node.get("description")] == []


def test_a_message_names_a_field_and_a_remedy() -> None:
    for refinement in (rules.DLJOB, rules.PACKING_POLICY):
        for rule in (rule for group in refinement.rules.values() for rule in group):
            assert len(rule.message.split()) >= 6, rule.message


def test_the_files_hold_no_anchors() -> None:
    for text in crds.rendered().values():
        assert "&id" not in text
        assert yaml.safe_load(text)["kind"] == "CustomResourceDefinition"
