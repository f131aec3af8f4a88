"""`helm --wait` and all that go by kstatus: a DLJob is current when it runs or is done, and failed when it is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cluster.charted import helm
from cluster.workloads import Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase

CHART = "apiVersion: v2\nname: team\nversion: 0.1.0\n"
JOB = "train"


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
    workspace: Workspace, wait: Callable[..., tuple[int, str]]
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
    workspace.client.delete(workspace.deployments() + f"/{JOB}")
    workspace.wait_for_condition(JOB, "Stalled", "False")
    assert wait(60, **spec) == (0, "")
