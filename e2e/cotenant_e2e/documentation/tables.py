"""Tables of the reference that no schema of Kubernetes has: values of the chart, and metrics. Pure but for the files."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from cotenant_api.names import NodeName
from cotenant_deviceplugin.node import metrics as agent_metrics
from cotenant_e2e import charts
from cotenant_extender import metrics as extender_metrics

_FOREIGN: Final = ("process_", "python_")
"""Metrics of the library's own, which every program has."""
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def values() -> list[str]:
    """Every value of the chart: its default and comment from values.yaml, what may stand there from the schema."""
    text = (charts.CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((charts.CHART / charts.SCHEMA).read_text(encoding="utf-8"))
    root = yaml.compose(text)
    lines = ["| value | default | may be | |", "|---|---|---|---|"]
    for path, node, rule, comment in _keys(root, schema, schema, text.split("\n"), ""):
        default = "" if _opens(node, rule) else f"`{_flow(node)}`"
        lines.append(f"| `{path}` | {default} | {_allowed(rule, schema)} | {_cell(comment or _said(rule))} |")
    return lines


def metrics(component: str) -> list[str]:
    """Every metric of `cotenant-extender` or `cotenant-node-agent`.

    Raises:
        KeyError: there is no such component.
    """
    lines = ["| metric | type | labels | |", "|---|---|---|---|"]
    for name, kind, labels, text in _families(_REGISTRIES[component]()):
        if not name.startswith(_FOREIGN):
            names = " ".join(f"`{label}`" for label in labels)
            lines.append(f"| `{name}` | {kind} | {names} | {_cell(text)} |")
    return lines


def _agent_registry() -> CollectorRegistry:
    return agent_metrics.Metrics(NodeName("n"), "0", lambda: None).registry


def _extender_registry() -> CollectorRegistry:
    return extender_metrics.Metrics().registry


_REGISTRIES: Final = {"cotenant-extender": _extender_registry, "cotenant-node-agent": _agent_registry}


def _families(registry: CollectorRegistry) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name as it is scraped, type, labels and help of every metric, by collector."""
    for collector in registry._collector_to_names:
        own = tuple(collector._labelnames) if isinstance(collector, MetricWrapperBase) else None
        for family in collector.collect():
            labels = own if own is not None else tuple(getattr(family, "_labelnames", ()))
            if family.type == "info" and family.samples:
                labels = tuple(family.samples[0].labels)
            yield f"{family.name}{_SUFFIXES.get(family.type, '')}", family.type, labels, family.documentation


def _keys(
    node: yaml.Node, rule: Mapping[str, Any], schema: Mapping[str, Any], lines: list[str], above: str
) -> Iterator[tuple[str, yaml.Node, Mapping[str, Any], str]]:
    """Path, value, schema and comment of every key, in the order of the file."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        path = f"{above}{key.value}"
        own = _resolved(rule.get("properties", {}).get(key.value, {}), schema)
        yield path, value, own, _comment(lines, key.start_mark.line)
        if _opens(value, own):
            yield from _keys(value, own, schema, lines, f"{path}.")


def _opens(node: yaml.Node, rule: Mapping[str, Any]) -> bool:
    """Whether the keys below have rows of their own."""
    return isinstance(node, yaml.MappingNode) and bool(node.value) and "properties" in rule and not node.flow_style


def _comment(lines: list[str], line: int) -> str:
    """The comment that stands directly above a line."""
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip().removeprefix("#").strip())
    return " ".join(found)


def _resolved(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(rule.get("$ref", ""))
    own: Mapping[str, Any] = schema["$defs"][reference.removeprefix("#/$defs/")] if reference else {}
    return {**own, **{key: value for key, value in rule.items() if key != "$ref"}}


def _allowed(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "enum" in rule:
        return " ".join(f"`{each}`" for each in rule["enum"])
    kinds = rule.get("type", "")
    words = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if words == "array":
        inner = _resolved(rule.get("items", {}), schema).get("type", "")
        words = f"list of {inner}s" if inner else "list"
    low, high = rule.get("minimum"), rule.get("maximum")
    bounds = f"{low} to {high}" if low is not None and high is not None else "" if low is None else f"at least {low}"
    return ", ".join(part for part in (words, bounds) if part)


def _said(rule: Mapping[str, Any]) -> str:
    return str(rule.get("description", ""))


def _flow(node: yaml.Node) -> str:
    """A value in one line, as YAML writes it."""
    value = yaml.safe_load(yaml.serialize(node))
    return json.dumps(value) if not isinstance(value, str) or not value else value


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
