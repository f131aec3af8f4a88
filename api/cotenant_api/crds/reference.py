"""A definition as Markdown: every field, refusal and column, from the schema that the API server gets. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api.crds import structural

OPAQUE: Final = ("spec.template",)
"""Shown as one field: Kubernetes describes what is in it."""
_TYPES: Final = {"object": "object", "array": "list", "integer": "integer", "boolean": "boolean", "string": "string"}
_PATTERNS: Final = {r"^[\w.]+:[\w.]+$": "`module:name`"}


def fields(definition: Mapping[str, Any], part: str) -> list[str]:
    """Return a table of the fields of `spec` or `status`, nested ones with their path."""
    schema = _schema(definition)
    fixed = _fixed(schema)
    lines = ["| field | type | default | bounds | |", "|---|---|---|---|---|"]
    for path, node, required in _walk(schema["properties"][part], part):
        name = path.removeprefix(f"{part}.")
        text = " ".join([node.get("description", ""), fixed.get(path, "")]).strip()
        need = "required" if required else _default(node)
        lines.append(f"| `{name}` | {_type(node)} | {need} | {_bounds(node)} | {_cell(text)} |")
    return lines


def refusals(definition: Mapping[str, Any]) -> list[str]:
    """Return a table of what the API server refuses beyond types and bounds: where, and its message."""
    found: dict[str, list[str]] = {}
    for path, rule in _rules(_schema(definition), ""):
        where = f"{path}{rule.get('fieldPath', '')}".removeprefix(".") or "metadata.name"
        found.setdefault(rule["message"], []).append(f"`{where}`")
    rows = [f"| {'<br>'.join(paths)} | {_cell(message)} |" for message, paths in found.items()]
    return ["| field | the API server's message |", "|---|---|", *rows]


def columns(definition: Mapping[str, Any]) -> list[str]:
    """Return a table of what `kubectl get` prints."""
    lines = ["| column | is | |", "|---|---|---|"]
    for column in definition["spec"]["versions"][0]["additionalPrinterColumns"]:
        wide = "with `-o wide`" if column.get("priority") else ""
        lines.append(f"| {column['name'].upper()} | `{column['jsonPath'].removeprefix('.')}` | {wide} |")
    return lines


def _schema(definition: Mapping[str, Any]) -> structural.Schema:
    schema: structural.Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _walk(node: structural.Schema, path: str) -> Iterator[tuple[str, structural.Schema, bool]]:
    """Every field below a node: path, schema, whether it is required where its parent is there."""
    for name, child in node.get("properties", {}).items():
        below = f"{path}.{name}"
        yield below, child, name in node.get("required", ())
        if below in OPAQUE:
            continue
        inner = child.get("items", {}) if child.get("type") == "array" else child
        yield from _walk(inner, f"{below}[]" if child.get("type") == "array" else below)


def _rules(node: structural.Schema, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule
    for name, child in node.get("properties", {}).items():
        yield from _rules(child, f"{path}.{name}")
    if "items" in node:
        yield from _rules(node["items"], f"{path}[]")


def _fixed(schema: structural.Schema) -> dict[str, str]:
    """Path -> that the field is immutable, by the rules that compare it with what it was."""
    found = {}
    for path, rule in _rules(schema, ""):
        if "oldSelf" in rule["rule"] and not rule.get("optionalOldSelf"):
            training = "workloadType != 'Training' ||" in rule["rule"]
            text = "Immutable for Training." if training else "Immutable."
            found[f"{path}{rule.get('fieldPath', '')}".removeprefix(".")] = text
    return found


def _type(node: structural.Schema) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in node else "number or name"
    if node.get("format") == "date-time":
        return "time"
    if isinstance(node.get("additionalProperties"), dict):
        return f"map of {_type(node['additionalProperties'])}s"
    if node["type"] == "array":
        return f"list of {_type(node['items'])}s"
    return "enum" if "enum" in node else _TYPES[node["type"]]


def _default(node: structural.Schema) -> str:
    if "default" not in node or node["default"] == {}:
        return ""
    return f"`{str(node['default']).lower() if isinstance(node['default'], bool) else node['default']}`"


def _bounds(node: structural.Schema) -> str:
    """Values, range, length or number of entries, in words."""
    if "enum" in node:
        return " ".join(f"`{value}`" for value in node["enum"])
    parts = [_PATTERNS[node["pattern"]]] if node.get("pattern") in _PATTERNS else []
    parts += _range(node, "minimum", "maximum", "")
    if not node.get("x-kubernetes-int-or-string"):
        parts += _range(node, "minLength", "maxLength", " characters")
    parts += _range(node, "minItems", "maxItems", " entries") + _range(node, "minProperties", "maxProperties", " keys")
    return ", ".join(parts)


def _range(node: structural.Schema, least: str, most: str, unit: str) -> list[str]:
    low, high = node.get(least), node.get(most)
    if low is None and high is None:
        return []
    if high is None:
        return [f"at least {low}{unit}"]
    if low is None or (unit and low <= 1):
        return [f"at most {high}{unit}"]
    return [f"{low} to {high}{unit}"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
