"""Beside NVIDIA's own device plugin: what one of the two has handed out, the agent never hands out as well."""

from collections.abc import Iterator

import pytest

from cotenant_api import names
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.node import agents
from node import tenants as kit
from node.nvidia_plugin import Plugin
from node.tenants import Tenants

SECONDS = 60
SHARES = 400
QUIET_SECONDS = 15.0
"""Longer than the agent takes to look at anything."""


@pytest.fixture(name="plugin")
def nvidias(tenants: Tenants) -> Iterator[Plugin]:
    """NVIDIA's plugin, which is not started yet; at the end the node is Cotenant's again.

    Before it comes and after it has gone a pod runs that `never_runs` while it is there.
    """
    plugin = Plugin(tenants)
    runs(tenants, "before")
    yield plugin
    tenants.client.delete(tenants.pods())
    waiting.wait_until(lambda: not tenants.client.items(tenants.pods()), "no pods", SECONDS)
    plugin.remove()
    tenants.gpus.wait_until_offered(SHARES)
    runs(tenants, "afterwards")


def runs(tenants: Tenants, name: str) -> None:
    """Assert that a pod that asks for a share starts, within the time that `never_runs` waits."""
    tenants.create(name)
    tenants.wait(name, "running", tenants.logs, seconds=QUIET_SECONDS)
    tenants.delete(name)


def closed(tenants: Tenants) -> None:
    """Return when the agent gives no shares, because of NVIDIA's plugin."""
    gpus = tenants.gpus
    waiting.wait_until(lambda: gpus.ready() == ("False", "ForeignDevicePlugin"), "ForeignDevicePlugin", SECONDS)


def never_runs(tenants: Tenants, name: str) -> None:
    """Assert that the pod of `runs` does not start, for as long as anybody needs to make up his mind."""
    tenants.create(name)
    with pytest.raises(waiting.NotReadyError):
        tenants.wait(name, "running", tenants.logs, seconds=QUIET_SECONDS)
    tenants.delete(name)


def test_nvidias_plugin_after_cotenant_takes_what_is_free_and_tenants_run_on(tenants: Tenants, plugin: Plugin) -> None:
    tenants.create("ours")
    pod = tenants.running("ours")
    plugin.start()
    closed(tenants)
    what = "free shares withdrawn"
    waiting.wait_until(lambda: tenants.gpus.node.allocatable(names.GPU_SHARE) <= 30, what, SECONDS)
    never_runs(tenants, "late")
    undisturbed(tenants, pod)


def test_nvidias_pods_beside_tenants_get_all_gpus_and_no_tenant_joins_them_at_any_restart(
    tenants: Tenants, plugin: Plugin
) -> None:
    tenants.create("ours")
    pod = tenants.running("ours")
    placed = kit.placement_of(pod)
    assert placed is not None
    (gpu,) = (each.uuid for each in placed.gpus)
    plugin.start()
    closed(tenants)
    theirs = [f"theirs-{number}" for number in range(len(tenants.gpus.state.gpus()))]
    for name in theirs:
        plugin.create(name)
    # What is not held: one of them has the tenant's GPU.
    assert gpu in {plugin.gpu_of(name) for name in theirs}
    tenants.cluster.kill(agents.AGENT)
    tenants.gpus.start_agent()
    never_runs(tenants, "agent-anew")
    undisturbed(tenants, pod)
    plugin.kill()
    never_runs(tenants, "plugin-away")
    tenants.gpus.node.restart_kubelet()
    never_runs(tenants, "kubelet-anew")
    plugin.start()
    closed(tenants)
    never_runs(tenants, "plugin-anew")
    undisturbed(tenants, pod)
    for name in theirs:
        tenants.delete(name)
    never_runs(tenants, "plugin-idle")
    undisturbed(tenants, pod)


def undisturbed(tenants: Tenants, pod: Json) -> None:
    """Assert that a tenant's container runs as it did."""
    assert tenants.pod("ours")["status"]["containerStatuses"][0]["restartCount"] == 0
    assert kit.matches(tenants.shown(pod), kit.placement_of(pod))  # type: ignore[arg-type]


def test_a_gpu_of_nvidias_pods_is_not_handed_out_while_its_plugin_or_kubelet_or_agent_is_away(
    tenants: Tenants, plugin: Plugin
) -> None:
    plugin.start()
    closed(tenants)
    plugin.create("theirs")
    gpu = plugin.gpu_of("theirs")
    assert gpu in {each.uuid for each in tenants.gpus.state.gpus()}
    plugin.kill()
    never_runs(tenants, "plugin-away")
    tenants.cluster.kill(agents.AGENT)
    tenants.gpus.start_agent()
    never_runs(tenants, "agent-anew")
    tenants.gpus.node.restart_kubelet()
    never_runs(tenants, "kubelet-anew")
    plugin.start()
    closed(tenants)
    assert plugin.gpu_of("theirs") == gpu
    tenants.delete("theirs")
