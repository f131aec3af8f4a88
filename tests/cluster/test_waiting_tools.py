"""What tools that wait see of a DLJob: `helm --wait` and others by kstatus, and Argo CD by the script in the docs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from cluster.charted import helm
from cluster.workloads import Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import binaries, progress, versions
from cotenant_e2e.client import Json

CHART = "apiVersion: v2\nname: team\nversion: 0.1.0\n"
JOB = "train"
PAGE: Final = Path("docs/how-to/gitops.md")
SCRIPT: Final = "resource.customizations.health.cotenant.dev_DLJob"


@pytest.fixture
def wait(workspace: Workspace, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Installs or upgrades a release of one DLJob, and waits as helm does: its exit status, and what it says."""

    def run(seconds: int, **spec: object) -> tuple[int, str]:
        job = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": JOB}, "spec": spec}
        (tmp_path / "templates").mkdir(exist_ok=True)
        (tmp_path / "Chart.yaml").write_text(CHART)
        (tmp_path / "templates" / "job.yaml").write_text(yaml.safe_dump(job))
        arguments = ("upgrade", "team", str(tmp_path), "--install", "--wait", "--timeout", f"{seconds}s")
        done = helm(workspace.installation.cluster, *arguments, namespace=workspace.namespace)
        return done.returncode, done.stderr

    return run


@pytest.fixture(scope="module")
def lua() -> Path:
    """The Lua that Argo CD has inside."""
    found = binaries.find(environment=os.environ, progress=progress.PlainProgress(sys.stderr), programs=(versions.LUA,))
    return found[versions.LUA.name]


@pytest.fixture
def health(lua: Path, tmp_path: Path) -> Callable[[Json], tuple[str, str]]:
    """What Argo CD shows of a DLJob by the script of the docs: status and message."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = yaml.safe_load(block)["data"][SCRIPT]

    def run(job: Json) -> tuple[str, str]:
        whole = tmp_path / "health.lua"
        whole.write_text(
            f"obj = {literal(job)}\nlocal function check()\n{script}\nend\n"
            "local found = check()\nprint(found.status)\nprint(found.message)\n"
        )
        told = subprocess.run([lua, whole], capture_output=True, text=True, check=True, timeout=60).stdout
        status, _, message = told.partition("\n")
        return status, message.rstrip("\n")

    return run


def literal(value: object) -> str:
    """A JSON value as Lua writes it."""
    match value:
        case dict():
            return "{" + ", ".join(f"[{json.dumps(key)}] = {literal(item)}" for key, item in value.items()) + "}"
        case list():
            return "{" + ", ".join(map(literal, value)) + "}"
        case None:
            return "nil"
        case str():
            return '"' + "".join(f"\\{byte:03}" for byte in value.encode()) + '"'
        case _:
            return json.dumps(value)


def test_argo_cd_sees_a_job_that_nobody_has_looked_at_as_in_progress(health: Callable[[Json], tuple[str, str]]) -> None:
    new = {"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}
    assert health(new)[0] == "Progressing"
    assert health({"metadata": {"generation": 1}})[0] == "Progressing"
    ready = {"type": "Ready", "status": "True", "reason": "PodsReady", "message": ""}
    changed = {"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "conditions": [ready]}}
    assert health(changed)[0] == "Progressing"


def test_argo_cd_sees_each_state_of_a_job(workspace: Workspace, health: Callable[[Json], tuple[str, str]]) -> None:
    def shown() -> tuple[str, str]:
        return health(workspace.client.get(workspace.dljobs(JOB)))

    workspace.dljob(JOB, model=workspace.graph("graph"), template=template(run_for=""), suspend=True)
    workspace.wait_for_phase(JOB, Phase.SUSPENDED)
    assert shown()[0] == "Suspended"
    workspace.client.patch(workspace.dljobs(JOB), {"spec": {"suspend": False}})
    workspace.wait_for_condition(JOB, "Ready", "True")
    assert shown() == ("Healthy", "PodsReady: 1 of 1 replicas ready")
    workspace.end_pods(JOB)
    workspace.wait_for_phase(JOB, Phase.SUCCEEDED)
    assert shown()[0] == "Healthy"


def test_argo_cd_sees_why_a_job_waits(workspace: Workspace, health: Callable[[Json], tuple[str, str]]) -> None:
    missing = {"configMapRef": {"name": "nobody-made-it", "key": "graph.json"}}
    workspace.dljob(JOB, model=missing, template=template())
    why = workspace.wait_for_condition(JOB, "Queued", "False")
    shown, message = health(workspace.client.get(workspace.dljobs(JOB)))
    assert (shown, message) == ("Progressing", f"{why['reason']}: {why['message']}")


def test_a_job_that_runs_and_one_that_is_complete_are_current(
    workspace: Workspace, wait: Callable[..., tuple[int, str]]
) -> None:
    spec = {"model": workspace.graph("graph"), "template": template(run_for="")}
    assert wait(60, **spec) == (0, "")
    assert workspace.phase(JOB) == Phase.RUNNING
    workspace.end_pods(JOB)
    workspace.wait_for_phase(JOB, Phase.SUCCEEDED)
    assert wait(60, **spec) == (0, "")


def test_a_job_that_cannot_be_made_has_failed_and_is_current_when_that_is_mended(
    workspace: Workspace, wait: Callable[..., tuple[int, str]], health: Callable[[Json], tuple[str, str]]
) -> None:
    labels = {"app": "other"}
    other = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": JOB},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": other},
    }
    workspace.client.create(workspace.deployments(), deployment)
    spec = {"workloadType": "Inference", "model": workspace.graph("graph"), "template": template(run_for="")}
    status, said = wait(30, **spec)
    assert (status, "Failed" in said) == (1, True)
    assert workspace.condition(JOB, "Stalled")["reason"] == "NameTaken"
    shown, why = health(workspace.client.get(workspace.dljobs(JOB)))
    assert (shown, why.partition(":")[0]) == ("Degraded", "NameTaken")
    workspace.client.delete(workspace.deployments() + f"/{JOB}")
    workspace.wait_for_condition(JOB, "Stalled", "False")
    assert wait(60, **spec) == (0, "")
