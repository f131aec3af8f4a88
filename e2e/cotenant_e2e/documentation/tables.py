"""Tables of the reference that no CRD has: values of the chart, and metrics. Pure but for reading the chart."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from cotenant_api.names import NodeName
from cotenant_dashboard.web import metrics as dashboard_metrics
from cotenant_deviceplugin.node import metrics as agent_metrics
from cotenant_e2e import charts
from cotenant_extender import metrics as extender_metrics
from cotenant_operator.telling import metrics as operator_metrics

_FOREIGN: Final = ("process_", "python_")
"""Metrics of the library's own, which every program has."""
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def values() -> list[str]:
    """Every value of the chart: its default and comment from values.yaml, what may stand there from the schema."""
    text = (charts.CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((charts.CHART / charts.SCHEMA).read_text(encoding="utf-8"))
    lines = ["| value | default | may be | |", "|---|---|---|---|"]
    for row in _Values(text.split("\n"), schema).rows(yaml.compose(text), schema):
        said = _cell(row.comment or row.described)
        if not row.opens:
            lines.append(f"| `{row.path}` | `{_flow(row.node)}` | {row.allowed} | {said} |")
        elif said:
            lines.append(f"| `{row.path}` | | | {said} |")
    return lines


def metrics(component: str) -> list[str]:
    """Every metric of one of `COMPONENTS`.

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


def _dashboard_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(dashboard_metrics._Namespaces({}))
    return registry


def _operator_registry() -> CollectorRegistry:
    return operator_metrics.Metrics().registry


_REGISTRIES: Final = {
    "cotenant-dashboard": _dashboard_registry,
    "cotenant-extender": _extender_registry,
    "cotenant-node-agent": _agent_registry,
    "cotenant-operator": _operator_registry,
}
COMPONENTS: Final = tuple(_REGISTRIES)
"""Those that have metrics."""


def _families(registry: CollectorRegistry) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name as it is scraped, type, labels and help of every metric, by collector."""
    for collector in registry._collector_to_names:
        own = tuple(collector._labelnames) if isinstance(collector, MetricWrapperBase) else None
        for family in collector.collect():
            labels = own if own is not None else tuple(getattr(family, "_labelnames", ()))
            if family.type == "info" and family.samples:
                labels = tuple(family.samples[0].labels)
            yield f"{family.name}{_SUFFIXES.get(family.type, '')}", family.type, labels, family.documentation


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One key of values.yaml; `opens`: those below it have rows of their own."""

    path: str
    node: yaml.Node
    comment: str
    described: str
    allowed: str
    opens: bool


@dataclass(frozen=True)
class _Values:
    """A values file, by line, and its schema."""

    lines: list[str]
    schema: Mapping[str, Any]

    def rows(self, node: yaml.Node | None, rule: Mapping[str, Any], above: str = "") -> Iterator[_Row]:
        """Every key, in the order of the file."""
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            own = self._resolved(rule.get("properties", {}).get(key.value, {}))
            opens = isinstance(value, yaml.MappingNode) and bool(value.value) and "properties" in own
            row = _Row(
                path=f"{above}{key.value}",
                node=value,
                comment=self._comment(key.start_mark.line),
                described=str(own.get("description", "")),
                allowed=self._allowed(own),
                opens=opens and not value.flow_style,
            )
            yield row
            if row.opens:
                yield from self.rows(value, own, f"{row.path}.")

    def _comment(self, line: int) -> str:
        """Return the comment that stands directly above a line."""
        found: list[str] = []
        while line > 0 and self.lines[line - 1].lstrip().startswith("#"):
            line -= 1
            found.insert(0, self.lines[line].strip().removeprefix("#").strip())
        return " ".join(found)

    def _resolved(self, rule: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = str(rule.get("$ref", ""))
        own: Mapping[str, Any] = self.schema["$defs"][reference.removeprefix("#/$defs/")] if reference else {}
        return {**own, **{key: value for key, value in rule.items() if key != "$ref"}}

    def _allowed(self, rule: Mapping[str, Any]) -> str:
        if "enum" in rule:
            return " ".join(f"`{each}`" for each in rule["enum"])
        kinds = rule.get("type", "")
        words = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
        if words == "array":
            words = f"list of {self._resolved(rule.get('items', {})).get('type', 'value')}s"
        low, high = rule.get("minimum"), rule.get("maximum")
        bounds = "" if low is None else f"at least {low}" if high is None else f"{low} to {high}"
        return ", ".join(part for part in (words, bounds) if part)


def _flow(node: yaml.Node) -> str:
    """Return a value in one line, as YAML writes it."""
    value = yaml.safe_load(yaml.serialize(node))
    return json.dumps(value) if not isinstance(value, str) or not value else value


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
