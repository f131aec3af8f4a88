"""`helm uninstall` with jobs running: admission stops first, what runs ends when it ends, and the node is as before."""

from pathlib import Path

import pytest

import cotenant_api
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.node import agents, machine
from cotenant_standin.state import ComputeMode
from install import site as sites
from install import team as teams
from install.site import Site
from install.team import Team
from node import tenants as kit

SHARES = 200


@pytest.fixture
def installed(site: Site) -> Site:
    """The chart with its default values."""
    site.have(cotenant_api.__version__)
    return site


def left(site: Site) -> dict[str, object]:
    """Everything of Cotenant that is still on the node."""
    node = site.gpus.node.object()
    found = {
        "label": node["metadata"]["labels"].get(names.GPU_NODE_LABEL),
        "taints": [taint["key"] for taint in node["spec"].get("taints") or () if taint["key"] == names.STARTUP_TAINT],
        "specifications": [path.name for path in machine.CDI.glob("cotenant.dev*")],
        "pipes": [path.name for path in agents.MPS_ROOT.iterdir()] if agents.MPS_ROOT.exists() else [],
        "modes": [gpu.index for gpu in site.gpus.state.gpus() if gpu.compute_mode != ComputeMode.DEFAULT],
    }
    return {name: value for name, value in found.items() if value}


def test_what_runs_is_left_to_its_end_and_then_nothing_is_left(installed: Site, team: Team, tmp_path: Path) -> None:
    finish = tmp_path / "finish"
    tmp_path.chmod(0o755)
    for kind in teams.KINDS:
        team.submit(kind, until=finish)
    for kind in teams.KINDS:
        team.pod(kind)
    team.tenants.create("waits", SHARES)
    before, mps_clients = team.running(), installed.gpus.clients()
    assert len(mps_clients) == len(teams.KINDS)

    said = installed.helm.run("uninstall", "cotenant", "--timeout", "240s")

    for pod in installed.cluster.client.items(team.space.pods()):
        assert f"{team.tenants.namespace}/{pod['metadata']['name']}" in said
    assert (team.running(), installed.gpus.clients()) == (before, mps_clients)
    assert installed.pods("cotenant-mps"), "the daemons end after their last client"
    team.delete("waits")
    plain(team)

    installed.cluster.client.delete(team.space.deployments())
    finish.touch()
    waiting.wait_until(lambda: team.succeeded(teams.JOB), "the Job's success", teams.SECONDS)
    waiting.wait_until(lambda: not installed.pods(), "no pods of the release", sites.SECONDS)
    waiting.wait_until(lambda: not left(installed), f"a node without {left(installed)}", sites.SECONDS)
    assert installed.gpus.node.allocatable(names.GPU_SHARE) == 0


def plain(team: Team) -> None:
    """A pod that asks for no share runs in the same namespace."""
    container = {"name": "main", "image": agents.CLIENT_IMAGE, "command": ["true"]}
    spec = {"containers": [container], "restartPolicy": "Never"}
    team.site.cluster.client.create(team.space.pods(), {"metadata": {"name": "plain"}, "spec": spec})
    path = clients.path_of("pods", namespace=team.tenants.namespace, name="plain")

    def succeeded() -> bool:
        return bool(team.site.cluster.client.get(path)["status"].get("phase") == "Succeeded")

    waiting.wait_until(succeeded, "a pod without a share", kit.SECONDS)
