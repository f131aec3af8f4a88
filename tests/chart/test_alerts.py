"""Alerts: they ask for metrics that exist, with labels that occur, and each has a runbook."""

import re

import yaml

from chart import rendering
from cotenant_api import exposition, gpunode
from cotenant_api.names import NodeName
from cotenant_deviceplugin.node import metrics as agent
from cotenant_e2e import charts
from cotenant_extender import binder
from cotenant_extender import metrics as extender
from cotenant_operator.telling import metrics as operator

RUNBOOKS = charts.CHART.parents[1] / "docs" / "runbooks.md"


def rules() -> list[rendering.Object]:
    """As they are rendered."""
    (group,) = rendering.one("everything", "PrometheusRule", "cotenant")["spec"]["groups"]
    found: list[rendering.Object] = group["rules"]
    return found


def exported() -> set[str]:
    """Names of the metrics of extender, node agent and operator."""
    who = exposition.Audience.HOLDER
    text = extender.Metrics().text(who) + agent.Metrics(NodeName("n"), "0", lambda: None).text(who)
    told = text.decode() + operator.Metrics().text().decode()
    return set(re.findall(r"^# TYPE (cotenant_\w+)", told, re.MULTILINE))


def test_alerts_ask_for_metrics_that_exist() -> None:
    asked = {name for rule in rules() for name in re.findall(r"\bcotenant_\w+", rule["expr"])}
    assert asked
    assert asked <= exported()


def test_alerts_ask_for_values_of_labels_that_occur() -> None:
    expressions = " ".join(rule["expr"] for rule in rules())
    assert set(re.findall(r'cotenant_gpu_health\{state="(\w+)"', expressions)) <= set(gpunode.Health)
    assert set(re.findall(r'cotenant_gpu_mps\{state="(\w+)"', expressions)) <= set(gpunode.MPS)
    (results,) = re.findall(r'result!~"([\w|]+)"', expressions)
    assert set(results.split("|")) == {binder.Result.BOUND, binder.Result.ALREADY}


def test_alerts_ask_for_results_that_the_operator_counts() -> None:
    (results,) = re.findall(r'reconciles_total\{result=~"([\w|]+)"', " ".join(rule["expr"] for rule in rules()))
    assert set(results.split("|")) == {operator.Result.REFUSED, operator.Result.FAULT}


def test_an_alert_that_asks_for_a_job_names_one_that_is_scraped() -> None:
    asked = {job for rule in rules() for job in re.findall(r'job="([\w-]+)"', rule["expr"])}
    services = {item["metadata"]["name"] for item in rendering.objects("everything") if item["kind"] == "Service"}
    assert asked <= services


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    titles = re.findall(r"^## (\w+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert titles == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"https://runbooks.test/cotenant#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_where_nothing_is_packed_no_alert_waits_for_the_extender() -> None:
    arguments = ("--set", "metrics.prometheusRule.enabled=true", "--api-versions", rendering.MONITORING)
    done = rendering.template("--set", "mode=Observe", *arguments)
    assert "CotenantNodeNotReady" in done.stdout
    assert "cotenant_extender_" not in done.stdout


def test_while_nothing_is_shared_nobody_is_told_of_an_extender_or_of_processes_of_others() -> None:
    values = ("metrics.prometheusRule.enabled=true", "mode=Observe")
    done = rendering.template("--api-versions", rendering.MONITORING, *(f"--set={value}" for value in values))
    (rule,) = (item for item in yaml.safe_load_all(done.stdout) if item and item["kind"] == "PrometheusRule")
    named = {each["alert"] for each in rule["spec"]["groups"][0]["rules"]}
    assert {"CotenantNodeNotReady", "CotenantXid"} <= named
    assert not named & {"CotenantForeignProcess", "CotenantQueueStuck"}
