"""One list of hostile objects, and each program that reads objects of tenants: none ends it or hides another's."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Final

import httpx
import pytest

from cluster import hostile_kinds, tenants
from cluster.test_hostile_objects import raw
from cluster.workloads import SECONDS, Workspace, template
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.installation import COTENANT, Installation

JOB: Final = "beside-them"
SPACE, HOSTILE = "honest-reader", "hostile-reader"
MODEL: Final = "NVIDIA-H200"
NODE: Final = hostile_kinds.NODE
COMMANDS: Final = (
    ("top",),
    ("top", "-o", "json"),
    ("why", f"{SPACE}/{JOB}"),
    ("why", f"{HOSTILE}/words"),
    ("why", f"{HOSTILE}/wide"),
    ("node", "show", NODE),
    ("node", "drain", NODE, "--dry-run", "-o", "json"),
    ("doctor",),
    ("measurements", "--all-namespaces"),
    ("snapshot",),
)
MAY_FIND_ERRORS: Final = {"doctor": 3}
RESTARTED: Final[dict[str, Callable[[Installation], None]]] = {
    installation.EXTENDER: lambda made: installation.choose_by(made, weight=None),
    installation.OPERATOR: lambda made: installation.start_operator(made.cluster),
    installation.AGENTS: lambda made: installation.start_agents(made.cluster),
}


def run(space: Workspace, name: str) -> None:
    """Have a job predicted, placed and started: it needs the operator, the extender and an agent."""
    space.dljob(name, model=space.graph(f"graph-{name}"), gpuModels=[MODEL], template=template(run_for=""))
    space.wait_for_phase(name, Phase.RUNNING)
    space.wait_for_condition(name, "Predicted", "True")


@pytest.fixture(scope="module")
def among_hostile(installed: Installation) -> Iterator[Workspace]:
    """A namespace with a job that runs, beside one with every hostile object."""
    space, hostile = Workspace(installed, SPACE), Workspace(installed, HOSTILE)
    for made in (space, hostile):
        made.create()
    tenant = tenants.create(hostile)
    before = {name: installed.cluster.process(name).pid for name in RESTARTED}
    paths = [found.submit(tenant) for found in hostile_kinds.OBJECTS]
    run(space, JOB)
    assert {name: installed.cluster.process(name).pid for name in RESTARTED} == before
    yield space
    # One by one and unread: neither may the answer be decoded, nor be as long as all are together.
    for path in paths:
        raw(tenant, "DELETE", f"{path}?propagationPolicy=Background", may_be_gone=True)
    for made in (space, hostile):
        made.remove()


@pytest.mark.parametrize("name", RESTARTED)
def test_a_component_starts_among_hostile_objects(among_hostile: Workspace, name: str) -> None:
    if name != installation.EXTENDER:
        # Two by one name would both lead.
        among_hostile.installation.cluster.stop_process(name)
    RESTARTED[name](among_hostile.installation)
    run(among_hostile, f"after-{name}")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_reads_a_cluster_with_hostile_objects(among_hostile: Workspace, words: tuple[str, ...]) -> None:
    kubeconfig = str(among_hostile.installation.cluster.kubeconfig())
    argv = [str(COTENANT), *words, "--kubeconfig", kubeconfig]
    done = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=False)
    said = done.stdout.decode()
    assert done.returncode in {0, MAY_FIND_ERRORS.get(words[0], 0)}, done.stderr.decode()
    assert not set("\x1b\x07\u202e") & set(said)
    assert "Traceback" not in done.stderr.decode()
    if words[0] in {"top", "snapshot", "node"} or SPACE in words[-1]:
        assert JOB in said


def test_the_dashboard_shows_a_cluster_with_hostile_objects(among_hostile: Workspace) -> None:
    cluster = among_hostile.installation.cluster
    url = installation.start_dashboard(cluster)

    def shown() -> bool:
        parts = httpx.get(f"{url}api/page", timeout=SECONDS).raise_for_status().json()["parts"]
        tenants_of = [gpu["tenants"] for key, part in parts.items() if key.startswith("node/") for gpu in part["gpus"]]
        return any(tenant["namespace"] == SPACE for found in tenants_of for tenant in found)

    waiting.wait_until(lambda: clients.answers(f"{url}readyz"), "the dashboard", SECONDS)
    waiting.wait_until(shown, "the honest namespace's job on the page", SECONDS)
    cluster.stop_process(installation.DASHBOARD)
