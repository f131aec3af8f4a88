"""The schema of a template: Kubernetes' own, and over it what the protocol depends on."""

from collections.abc import Iterator

from cotenant_api.crds import pod_spec, structural, template

SPEC = template.pod_template()["properties"]["spec"]


def nodes(schema: structural.Schema, path: str = "spec") -> Iterator[tuple[str, structural.Schema]]:
    """A schema and all within it, with their paths."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}[]")


def test_every_object_lets_through_what_a_newer_kubernetes_knows() -> None:
    closed = [
        path
        for path, schema in nodes(SPEC)
        if schema.get("type") == "object"
        and "additionalProperties" not in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ]
    assert closed == []


def test_nothing_is_defaulted_and_items_are_told_apart_by_fields_that_they_must_have() -> None:
    for path, schema in nodes(SPEC):
        assert "default" not in schema, path
        keys = schema.get("x-kubernetes-list-map-keys", ())
        assert set(keys) <= set(schema.get("items", {}).get("required", ())), path


def test_every_list_is_bounded() -> None:
    assert [path for path, schema in nodes(SPEC) if schema.get("type") == "array" and "maxItems" not in schema] == []


def test_what_the_protocol_spells_out_stands_over_what_kubernetes_says() -> None:
    container = SPEC["properties"]["containers"]["items"]
    assert container["properties"]["image"]["maxLength"] == template.MAX_IMAGE
    assert container["properties"]["image"]["description"] == "Container image name."
    assert container["properties"]["resources"]["properties"]["limits"]["maxProperties"] == 32
    assert container["properties"]["volumeMounts"]["items"]["required"] == ["mountPath", "name"]


def test_merging_keeps_what_either_says_and_changes_neither() -> None:
    below: structural.Schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "A."}, "b": {"type": "string"}},
    }
    above: structural.Schema = {"properties": {"a": {"maxLength": 3}, "c": {"type": "integer"}}}
    merged = pod_spec.merged(below, above)
    assert merged["properties"]["a"] == {"type": "string", "description": "A.", "maxLength": 3}
    assert list(merged["properties"]) == ["a", "b", "c"]
    assert below["properties"]["a"] == {"type": "string", "description": "A."}
    assert above["properties"]["a"] == {"maxLength": 3}


def test_a_quantity_stands_in_the_place_of_a_type() -> None:
    assert pod_spec.merged({"type": "string", "description": "D."}, structural.QUANTITY) == {
        **structural.QUANTITY,
        "description": "D.",
    }
