"""Dashboards for Grafana: JSON made of the short descriptions in `manifests/dashboards`. Pure.

Fields: https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import errors

KINDS: Final = ("timeseries", "stat", "bargauge")
COLUMNS: Final = 24
"""Width of a Grafana dashboard."""
_WIDTH, _HEIGHT = 12, 8
_SCHEMA_VERSION: Final = 39
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


def of(description: Mapping[str, Any]) -> str:
    """Return the JSON of one dashboard.

    Args:
        description: `uid`, `title`, `panels` of `title`, `kind`, `queries` (legend -> PromQL) and `unit`; and
            `variables`: name -> query of the labels to choose from.

    Raises:
        InvalidInputError: a panel is of no kind that is known.
    """
    variables = description.get("variables", {})
    value = {
        "uid": description["uid"],
        "title": description["title"],
        "tags": ["cotenant"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(name, query) for name, query in variables.items())]},
        "panels": [_panel(number, panel) for number, panel in enumerate(description["panels"])],
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _datasource() -> Json:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _variable(name: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Mapping[str, Any]) -> Json:
    kind = panel["kind"]
    if kind not in KINDS:
        raise errors.InvalidInputError(f"panels[{number}].kind", kind, f"must be one of {', '.join(KINDS)}")
    queries = enumerate(panel["queries"].items())
    made: Json = {
        "id": number + 1,
        "title": panel["title"],
        "type": kind,
        "datasource": _DATASOURCE,
        "gridPos": _place(number),
        "fieldConfig": {"defaults": {"unit": panel.get("unit", "short"), "min": 0}, "overrides": []},
        "targets": [_target(chr(ord("A") + place), *query) for place, query in queries],
    }
    if kind == "bargauge":
        made["options"] = {"orientation": "horizontal", "reduceOptions": {"calcs": ["lastNotNull"]}}
        for target in made["targets"]:
            target |= {"instant": True, "range": False}
    return made


def _place(number: int) -> Json:
    across = COLUMNS // _WIDTH
    return {"x": number % across * _WIDTH, "y": number // across * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}


def _target(reference: str, legend: str, expression: str) -> Json:
    return {"refId": reference, "expr": expression, "legendFormat": legend, "datasource": _DATASOURCE}
