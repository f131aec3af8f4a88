"""`helm upgrade` from an earlier release with jobs running, and back: none of them notices."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import cotenant_api
from cotenant_api import names
from cotenant_e2e import charts, waiting
from cotenant_e2e import client as clients
from install import site as sites
from install import team as teams
from install.site import EARLIER, NAMESPACE, Site
from install.team import Team

SHARES = 200
VERSION = cotenant_api.__version__


@pytest.fixture
def earlier(site: Site, tmp_path: Path) -> Iterator[Site]:
    """An earlier release, installed from its packed chart."""
    chart = site.helm.package(charts.CHART, version=EARLIER, folder=tmp_path)
    site.install(chart)
    site.wait_until_offered(SHARES)
    yield site
    site.remove()


@pytest.fixture
def occupied(earlier: Site, team: Team) -> Team:
    """One workload of each kind, running."""
    for kind in teams.KINDS:
        team.submit(kind)
    for kind in teams.KINDS:
        team.pod(kind)
    return team


def versions(site: Site) -> dict[str, str]:
    """Component -> version, of containers that run."""
    found = {
        status["name"]: str(status["image"]).rpartition(":")[2]
        for pod in site.pods()
        if not pod["metadata"].get("deletionTimestamp")
        for status in pod["status"].get("containerStatuses") or ()
    }
    found.pop("kube-scheduler", None)
    return found


def served(site: Site) -> None:
    """Return when the agent that runs now offers the node's shares."""
    wanted = versions(site)["agent"]
    waiting.wait_until(lambda: site.gpus.status().get("agentVersion") == wanted, f"agent {wanted}", sites.SECONDS)
    site.wait_until_offered(SHARES)


def test_an_upgrade_and_its_rollback_disturb_no_running_job(earlier: Site, occupied: Team) -> None:
    before, clients_before = occupied.running(), earlier.gpus.clients()
    daemons = sites.containers(earlier.pods("cotenant-mps"))
    assert len(clients_before) == len(teams.KINDS)
    assert set(versions(earlier).values()) == {EARLIER}

    earlier.helm.upgrade(charts.CHART)
    # The daemons' pods are replaced by hand, when no tenant is left.
    assert versions(earlier) == {"operator": VERSION, "extender": VERSION, "agent": VERSION, "daemons": EARLIER}
    served(earlier)
    assert (occupied.running(), earlier.gpus.clients()) == (before, clients_before)

    earlier.helm.rollback(1)
    assert set(versions(earlier).values()) == {EARLIER}
    served(earlier)
    assert (occupied.running(), earlier.gpus.clients()) == (before, clients_before)
    assert sites.containers(earlier.pods("cotenant-mps")) == daemons


@pytest.mark.parametrize(
    ("plural", "workload", "container", "image"),
    [
        ("daemonsets", "cotenant-node-agent", "agent", "node"),
        ("deployments", "cotenant-scheduler", "extender", "extender"),
    ],
    ids=["agent", "extender"],
)
def test_a_component_one_version_ahead_serves_new_jobs(
    earlier: Site, team: Team, plural: str, workload: str, container: str, image: str
) -> None:
    path = clients.path_of(plural, group="apps", namespace=NAMESPACE, name=workload)
    reference = f"cotenant/{image}:{VERSION}"
    patch = {"spec": {"template": {"spec": {"containers": [{"name": container, "image": reference}]}}}}
    earlier.cluster.client.patch(path, patch, content_type="application/strategic-merge-patch+json")
    earlier.cluster.kubectl("rollout", "status", f"{plural}/{workload}", "--namespace", NAMESPACE, "--timeout=120s")
    assert versions(earlier) == dict.fromkeys(("operator", "extender", "agent", "daemons"), EARLIER) | {
        container: VERSION
    }
    earlier.wait_until_offered(SHARES)
    team.submit(teams.DLJOB)
    assert team.pod(teams.DLJOB)["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE]
