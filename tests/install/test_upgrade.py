"""`helm upgrade` from an earlier release with jobs running, and back: none of them notices."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import cotenant_api
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from install import site as sites
from install import team as teams
from install.releases import EARLIER
from install.site import NAMESPACE, Site
from install.team import Team
from node import tenants as kit

SHARES = 200
VERSION = cotenant_api.__version__


@dataclass(frozen=True)
class Component:
    """A container of a workload."""

    plural: str
    workload: str
    container: str
    image: str


@pytest.fixture
def earlier(site: Site) -> Site:
    """An earlier release, installed from its packed chart."""
    site.have(EARLIER)
    return site


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
    return {
        status["name"]: site.releases.version_of(status)
        for pod in site.pods()
        if not pod["metadata"].get("deletionTimestamp")
        for status in pod["status"].get("containerStatuses") or ()
        if status["name"] != "kube-scheduler"
    }


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

    earlier.helm.upgrade(earlier.releases.chart(VERSION))
    # The daemons stay: an upgrade that changed them would never be ready while somebody hangs on them.
    assert versions(earlier) == {"operator": VERSION, "extender": VERSION, "agent": VERSION, "daemons": EARLIER}
    served(earlier)
    assert (occupied.running(), earlier.gpus.clients()) == (before, clients_before)

    earlier.helm.rollback(1)
    assert set(versions(earlier).values()) == {EARLIER}
    served(earlier)
    assert (occupied.running(), earlier.gpus.clients()) == (before, clients_before)
    assert sites.containers(earlier.pods("cotenant-mps")) == daemons


def run_with(site: Site, component: Component, version: str) -> None:
    """Change one component's version alone; returns when it runs."""
    path = clients.path_of(component.plural, group="apps", namespace=NAMESPACE, name=component.workload)
    container = {"name": component.container, "image": site.releases.reference(component.image, version)}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    site.cluster.client.patch(path, patch, content_type="application/strategic-merge-patch+json")
    workload = f"{component.plural}/{component.workload}"
    site.cluster.kubectl("rollout", "status", workload, "--namespace", NAMESPACE, "--timeout=120s")


AGENT = Component("daemonsets", "cotenant-node-agent", "agent", "node")
EXTENDER = Component("deployments", "cotenant-scheduler", "extender", "extender")


@pytest.fixture(params=[AGENT, EXTENDER], ids=["agent", "extender"])
def ahead(earlier: Site, request: pytest.FixtureRequest) -> Iterator[Component]:
    """One component is a version ahead of the others."""
    run_with(earlier, request.param, VERSION)
    yield request.param
    run_with(earlier, request.param, EARLIER)


def test_with_a_component_one_version_ahead_a_new_job_gets_its_share(
    earlier: Site, ahead: Component, team: Team
) -> None:
    expected = dict.fromkeys(("operator", "extender", "agent", "daemons"), EARLIER)
    assert versions(earlier) == expected | {ahead.container: VERSION}
    served(earlier)
    team.submit(teams.DLJOB)
    pod = team.pod(teams.DLJOB)
    booked, shown = kit.placement_of(pod), team.tenants.shown(pod)
    assert booked
    assert shown
    assert kit.matches(shown, booked)
    assert len(booked.gpus) == 1


def test_daemons_of_another_version_come_to_a_node_when_their_pod_is_deleted(earlier: Site, team: Team) -> None:
    earlier.helm.change(earlier.releases.chart(VERSION), f"node.mps.tag={earlier.releases.tag('node', VERSION)}")
    before = versions(earlier)
    assert before["daemons"] == EARLIER
    pod = earlier.pod("cotenant-mps")["metadata"]["name"]
    earlier.cluster.kubectl("delete", "pod", "--namespace", NAMESPACE, pod)
    expected = dict.fromkeys(("operator", "extender", "agent", "daemons"), VERSION)
    waiting.wait_until(lambda: versions(earlier) == expected and earlier.ready(), "all of this version", sites.SECONDS)
    served(earlier)
    team.submit(teams.DLJOB)
    assert team.pod(teams.DLJOB)
