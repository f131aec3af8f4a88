"""The chart by `helm install` on a real node: every component in a container of its image, and what users run."""

import pytest

import cotenant_api
from cotenant_api import names
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from install import team as teams
from install.site import Site
from install.team import Team
from node import tenants as kit

SHARES = 200
MIB = 1024


@pytest.fixture(autouse=True)
def installed(site: Site) -> None:
    """The chart with its default values."""
    site.have(cotenant_api.__version__)


def _statuses(site: Site) -> dict[str, Json]:
    """Of each container of ours, by its name."""
    return {status["name"]: status for pod in site.pods() for status in pod["status"].get("containerStatuses", ())}


def test_every_component_runs_from_its_own_image_and_has_not_restarted(site: Site) -> None:
    ours = {"operator": "operator", "extender": "extender", "agent": "node", "daemons": "node"}
    parts = {*ours, "kube-scheduler"}

    def ready() -> dict[str, Json]:
        found = _statuses(site)
        return found if all(found.get(name, {}).get("ready") for name in parts) else {}

    # helm waits for no pod of a DaemonSet on a single node, as one may be unavailable.
    found = waiting.wait_until(ready, "every component ready", teams.SECONDS)
    digests = site.releases.released[cotenant_api.__version__].digests
    host = site.releases.registry.host
    wanted = {name: f"{host}/team/cotenant/{image}@{digests[image]}" for name, image in ours.items()}
    assert {name: found[name]["imageID"] for name in wanted} == wanted
    # Not of kube-scheduler: on a machine too busy to renew its Lease in time it ends, and begins again, by design.
    assert {name: found[name]["restartCount"] for name in ours} == dict.fromkeys(ours, 0)


def test_the_node_offers_its_gpus_through_the_agents_container(site: Site) -> None:
    assert site.gpus.node.allocatable(names.GPU_SHARE) == SHARES
    assert {gpu["health"] for gpu in site.gpus.status()["gpus"]} == {"Healthy"}


@pytest.mark.parametrize("kind", teams.KINDS)
def test_a_workload_runs_on_a_share_with_its_own_limits(team: Team, kind: str) -> None:
    team.submit(kind)
    pod = team.pod(kind)
    booked, shown = kit.placement_of(pod), team.tenants.shown(pod)
    assert booked
    assert shown
    assert kit.matches(shown, booked)
    assert shown.environment[kit.MEMORY] == f"0={3 * MIB}M"
    assert pod["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE] != str(names.HUNDREDTHS)


@pytest.mark.parametrize("kind", [teams.JOB, teams.DLJOB])
def test_a_job_that_ends_has_succeeded(team: Team, kind: str) -> None:
    team.submit(kind, script=kit.RUN)
    waiting.wait_until(lambda: team.succeeded(kind), f"{kind} succeeded", teams.SECONDS)
