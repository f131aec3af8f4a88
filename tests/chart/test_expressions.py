"""PromQL of alerts and dashboards: it parses, and asks for metrics and labels that our code exports."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from chart import rendering
from cotenant_api import errors, exposition
from cotenant_e2e import charts, dashboards
from cotenant_e2e.documentation import tables
from cotenant_extender import metrics

OF_THE_TARGET = frozenset({"job", "instance", "pod", "container", "endpoint", "service", "namespace"})
"""Labels that Prometheus gives to whatever a ServiceMonitor has it read."""
OURS_BESIDE_THEM = frozenset({"exported_namespace", "exported_pod"})
"""What becomes of labels of ours that are called so, too."""
IN_GRAFANA = {"$__rate_interval": "5m", "$__range": "1h", "$node": ".+"}


def exported() -> dict[str, set[str]]:
    """Labels of every series that extender, node agent and operator export, by its name."""
    found: dict[str, set[str]] = {}
    for component in ("cotenant-extender", "cotenant-node-agent", "cotenant-operator"):
        for line in tables.metrics(component)[2:]:
            name, kind, labels, _ = (cell.strip() for cell in line.strip("|").split("|", 3))
            names = set(re.findall(r"`(\w+)`", labels))
            bare = name.strip("`")
            found[bare] = names
            if kind == "histogram":
                found |= {f"{bare}_bucket": {*names, "le"}, f"{bare}_count": names, f"{bare}_sum": names}
    return found


def described(name: str) -> dict[str, str]:
    """PromQL of one dashboard, by panel and legend."""
    text = (charts.CHART / charts.DASHBOARDS / f"cotenant-{name}.json").read_text()
    return {
        f"{panel['title']}: {target['legendFormat']}": target["expr"]
        for panel in json.loads(text)["panels"]
        for target in panel["targets"]
    }


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((charts.CHART / "files" / "alerts.yaml").read_text())
    return found


def labels_of(text: str) -> set[str]:
    """Labels that the answer to PromQL may have."""
    aggregated = re.search(r"\bby \(([\w, ]+)\)", text)
    if aggregated:
        return set(aggregated.group(1).split(", "))
    own = {label for selector in selectors(parsed(text)) for label in exported().get(selector.name or "", ())}
    return own | OURS_BESIDE_THEM | OF_THE_TARGET


def parsed(text: str) -> promql_parser.Expr:
    for variable, value in IN_GRAFANA.items():
        text = text.replace(variable, value)
    return promql_parser.parse(text)


def selectors(expression: object) -> Iterator[promql_parser.VectorSelector]:
    """Every selector inside."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: object) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(expression, visit)  # type: ignore[arg-type]
    yield from found


EVERY = {
    **{f"alert {rule['alert']}": rule["expr"] for rule in rules()},
    **{f"{name} {panel}": text for name in ("overview", "node") for panel, text in described(name).items()},
}


@pytest.mark.parametrize("name", EVERY)
def test_it_parses_and_asks_for_metrics_and_labels_that_exist(name: str) -> None:
    known = exported()
    asked = list(selectors(parsed(EVERY[name])))
    assert asked
    for selector in asked:
        if selector.name == "up":
            continue
        assert selector.name in known
        assert {each.name for each in selector.matchers.matchers} <= known[selector.name] | OF_THE_TARGET


@pytest.mark.parametrize("name", EVERY)
def test_it_groups_by_labels_that_exist(name: str) -> None:
    text = EVERY[name]
    labels = {label for selector in selectors(parsed(text)) for label in exported().get(selector.name or "", ())}
    named = re.findall(r"\b(?:by|on|group_left) \(([\w, ]+)\)", text)
    assert {label.strip() for group in named for label in group.split(",")} <= labels | OF_THE_TARGET | OURS_BESIDE_THEM


@pytest.mark.parametrize("name", [name for name in EVERY if "{{" in name])
def test_a_legend_names_labels_that_the_answer_has(name: str) -> None:
    assert set(re.findall(r"\{\{(\w+)\}\}", name)) <= labels_of(EVERY[name])


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_summary_names_labels_that_the_alert_has(rule: dict[str, Any]) -> None:
    said = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert said <= labels_of(rule["expr"])
    assert re.sub(r"\{\{ \$(value|labels\.\w+) \}\}", "", rule["annotations"]["summary"]).count("{{") == 0


def test_what_prometheus_would_not_take_is_found() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        parsed("sum(rate(cotenant_share_seconds_total[5m])")


def test_every_dashboard_is_one_that_grafanas_sidecar_finds() -> None:
    for name in ("overview", "node"):
        found = rendering.one("everything", "ConfigMap", f"cotenant-{name}")
        assert found["metadata"]["labels"]["dashboard"] == "yes"
        (value,) = (json.loads(text) for text in found["data"].values())
        assert value["uid"] == f"cotenant-{name}"
        assert value["templating"]["list"][0]["type"] == "datasource"
        places = [tuple(panel["gridPos"].values()) for panel in value["panels"]]
        assert len(set(places)) == len(places)


def test_a_panel_of_no_known_kind_is_refused() -> None:
    source = yaml.safe_load((charts.MANIFESTS / "dashboards" / "node.yaml").read_text())
    source["panels"][0]["kind"] = "pie"
    with pytest.raises(errors.InvalidInputError, match=r"panels\[0\]\.kind"):
        dashboards.of(source)


def test_a_series_that_begins_with_its_first_event_is_alerted_on_at_once() -> None:
    """Nothing sets it to 0 before: XIDs are too many to name all."""
    (xid,) = (rule for rule in rules() if rule["alert"] == "CotenantXid")
    assert "cotenant_gpu_xid_errors_total unless cotenant_gpu_xid_errors_total offset 15m" in xid["expr"]


def test_a_queue_is_stuck_also_where_nothing_was_ever_given() -> None:
    (stuck,) = (rule for rule in rules() if rule["alert"] == "CotenantQueueStuck")
    assert 'lifts_total{result="ok"}[1h])) or vector(0)) == 0' in stuck["expr"]
    series = metrics.Metrics().text(exposition.Audience.HOLDER).decode()
    for kind in ("gate", "earmark", "scale-up", "question"):
        assert f'cotenant_extender_lifts_total{{kind="{kind}",result="ok"}} 0.0' in series
