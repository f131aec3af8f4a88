"""What is taken of an OpenAPI document into the schema of a DLJob's template."""

import json
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_e2e import pod_specs
from cotenant_e2e.commands import pod_spec

Json = dict[str, Any]

CORE = "io.k8s.api.core.v1"


def reference(name: str) -> Json:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], "default": {}}


def document(**properties: Json) -> Json:
    """An OpenAPI document with a PodSpec of these fields."""
    volume = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": reference("io.k8s.apimachinery.pkg.api.resource.Quantity")},
    }
    schemas = {
        f"{CORE}.PodSpec": {"type": "object", "required": ["nodeName"], "properties": properties},
        f"{CORE}.Volume": volume,
        "io.k8s.api.other.v1.Volume": {"type": "object", "properties": {"wrong": {"type": "string"}}},
        f"{CORE}.Unused": {"type": "object", "properties": {}},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"format": "int-or-string", "oneOf": []},
    }
    return {"components": {"schemas": schemas}}


def of_field(schema: Json) -> Json:
    found: Json = pod_specs.definitions(document(field=schema))["PodSpec"]["properties"]["field"]
    return found


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"type": "string", "default": "x"}, {"type": "string"}),
        ({"type": "integer", "format": "int32"}, {"type": "integer", "format": "int32"}),
        ({"type": "string", "format": "date-time"}, {"type": "string"}),
        ({"type": "string", "description": "One. Two."}, {"type": "string", "description": "One."}),
        ({"type": "string", "description": "One\n\nPossible values"}, {"type": "string", "description": "One"}),
        (reference("io.k8s.apimachinery.pkg.util.intstr.IntOrString"), {"x-kubernetes-int-or-string": True}),
        (reference("io.k8s.apimachinery.pkg.api.resource.Quantity"), {"$ref": "Quantity"}),
        (
            {
                "type": "object",
                "additionalProperties": {"type": "string", "default": ""},
                "x-kubernetes-map-type": "atomic",
            },
            {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        ),
    ],
)
def test_types_and_first_sentences_are_kept_and_defaults_are_not(schema: Json, kept: Json) -> None:
    assert of_field(schema) == kept


@pytest.mark.parametrize(("keys", "merges"), [(["name"], True), (["size"], False)])
def test_a_list_is_merged_by_keys_that_every_item_has(keys: list[str], merges: bool) -> None:
    schema = {"type": "array", "items": reference(f"{CORE}.Volume"), "x-kubernetes-list-map-keys": keys}
    assert of_field(schema).get("x-kubernetes-list-map-keys") == (keys if merges else None)


def test_only_what_a_pod_is_made_of_is_kept_and_of_two_types_of_a_name_the_pods() -> None:
    found = pod_specs.definitions(document(volumes={"type": "array", "items": reference(f"{CORE}.Volume")}))
    assert found.keys() == {"PodSpec", "Volume"}
    assert found["Volume"]["properties"].keys() == {"name", "size"}


def test_required_fields_are_left_to_the_api_server() -> None:
    assert "required" not in pod_specs.definitions(document(nodeName={"type": "string"}))["PodSpec"]


def test_without_kubernetes_module_it_is_said_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="cotenant_e2e programs"):
        pod_spec.written(tmp_path / "none.json", "v1.0.0")


def test_what_is_written_names_its_version_and_licence(tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document(nodeName={"type": "string"})))
    value = json.loads(pod_spec.written(file, "v1.2.3"))
    assert (value["kubernetes"], value["license"]) == ("v1.2.3", "Apache-2.0, The Kubernetes Authors")
