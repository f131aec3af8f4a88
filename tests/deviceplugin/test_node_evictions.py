"""Whom the whole agent of a node names for eviction because they keep a GPU from serving, and until when."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_api import exposition, gpunode
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import steps, supervision
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.node import holding
from cotenant_deviceplugin.node.agent import NodeAgent
from node_kit import quick
from node_kit.whole_node import CONTAINER_UID, WholeNode, started, wanted

UID = CONTAINER_UID.format(1)
SILENT = Server(state=gpunode.MPS.STARTING, reason="did not answer", daemon=50)
NO_DAEMON = Server(state=gpunode.MPS.STOPPED, reason="no MPS control daemon")


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


def name_for_eviction(agent: NodeAgent, node: WholeNode, pid: int) -> supervision.Decision:
    """A supervisor finds that a process of the first GPU has to go."""
    actions = (steps.EvictStayers(pids=frozenset({pid})),)
    decision = supervision.Decision(state=supervision.State(), published=gpunode.MPS.FAULT, actions=actions)
    agent.serious.setdefault(node.first, []).append(decision)
    agent.alarm.set()
    return decision


def evictions(agent: NodeAgent) -> bool:
    """Whether any was asked for."""
    text = agent.metrics.text(exposition.Audience.ANYBODY).decode()
    return 'cotenant_evictions_total{reason="BlocksGPURecovery"} 1.0' in text


async def test_a_server_that_keeps_failing_asks_for_its_stayers_to_be_evicted_until_it_serves_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        await started(node, node.bind())
        assert agent.machines is not None
        says = [gpunode.MPS.FAULT]
        monkeypatch.setattr(agent.machines, "evidence", lambda _: says[-1])
        node.run_process(51, UID)
        decision = name_for_eviction(agent, node, 51)
        monkeypatch.setattr(agent.machines, "decision", lambda _: replace(decision, published=says[-1]))
        await quick.until(lambda: wanted(node) == {gpunode.EvictionReason.BLOCKS_RECOVERY})
        assert evictions(agent)
        says.append(gpunode.MPS.ACTIVE)
        await quick.until(lambda: wanted(node) == set())


async def test_a_tenant_that_holds_a_gpu_without_a_server_is_asked_to_go_until_it_serves_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "EVICT_SECONDS", 0.5)
    node = WholeNode(folder)
    async with node.offering() as agent:
        await started(node, node.bind())
        node.run_process(51, UID)
        node.gpus.processes[node.first] = {51: 100}
        serving = node.mps.servers[node.first]
        node.mps.daemons = False
        node.mps.put(node.first, Server(state=gpunode.MPS.STOPPED, reason="no server", daemon=50))
        await quick.until(lambda: wanted(node) == {gpunode.EvictionReason.BLOCKS_RECOVERY})
        assert evictions(agent)
        node.gpus.processes[node.first] = {}
        node.mps.put(node.first, serving)
        await quick.until(lambda: wanted(node) == set())


@pytest.mark.parametrize("unasked", [SILENT, NO_DAEMON, replace(SILENT, pid=900)])
async def test_a_tenant_that_holds_a_gpu_alone_is_asked_to_go_though_its_daemon_does_not_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, unasked: Server
) -> None:
    """A tenant can keep the daemon from answering, and end it: neither may hide that it has the GPU without limits."""
    monkeypatch.setattr(holding, "EVICT_SECONDS", 0.5)
    node = WholeNode(folder)
    async with node.offering():
        await started(node, node.bind())
        node.run_process(51, UID)
        node.gpus.processes[node.first] = {51: 100}
        node.mps.put(node.first, unasked)
        await quick.until(lambda: wanted(node) == {gpunode.EvictionReason.BLOCKS_RECOVERY})


def named(node: WholeNode) -> dict[str, str | None]:
    """Why each tenant of the first GPU is to be evicted."""
    return {tenant["pod"]: tenant.get("evict") for tenant in node.gpu()["tenants"]}


async def have_first_named(node: WholeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start two pods on the first GPU, of which the first is named, and nobody will be after it."""
    monkeypatch.setattr(holding, "EVICT_SECONDS", 0.5)
    for number in (1, 2):
        await started(node, node.bind(number))
        node.run_process(50 + number, CONTAINER_UID.format(number))
    node.mps.daemons = False
    node.mps.put(node.first, SILENT)
    node.gpus.processes[node.first] = {51: 100}
    await quick.until(lambda: named(node) == {"p1": "BlocksGPURecovery", "p2": None})
    monkeypatch.setattr(holding, "EVICT_SECONDS", 3600.0)


async def test_a_tenant_that_has_let_go_of_a_gpu_is_asked_to_go_no_longer_while_another_holds_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await have_first_named(node, monkeypatch)
        node.gpus.processes[node.first] = {52: 100}
        await quick.until(lambda: named(node) == {"p1": None, "p2": None})


async def test_a_tenant_that_let_go_of_a_gpu_while_no_agent_ran_is_asked_to_go_no_longer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await have_first_named(node, monkeypatch)
    node.gpus.processes[node.first] = {52: 100}
    async with node.agent():
        await quick.until(lambda: named(node) == {"p1": None, "p2": None})


async def test_a_tenant_that_an_earlier_agent_asked_to_go_stays_named_unless_others_alone_hold_the_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = WholeNode(folder)
    async with node.offering():
        await have_first_named(node, monkeypatch)
    async with node.agent():
        for processes in ({51: 100, 52: 100}, dict[int, int]()):
            node.gpus.processes[node.first] = processes
            looked = node.mps.asked[node.first] + 2
            await quick.until(functools.partial(has_looked, node, looked))
            assert named(node) == {"p1": "BlocksGPURecovery", "p2": None}


def has_looked(node: WholeNode, times: int) -> bool:
    """Whether MPS of the first GPU was asked more often than that."""
    return node.mps.asked[node.first] > times


@pytest.mark.parametrize("server", [None, "00000000-0000-4000-8000-00000000d5e7"])
async def test_clients_of_a_server_that_a_fresh_agent_does_not_know_are_not_asked_to_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch, server: str | None
) -> None:
    """The server is a process of the host, or of the pod of MPS daemons."""
    monkeypatch.setattr(holding, "EVICT_SECONDS", 0.5)
    node = WholeNode(folder)
    async with node.offering():
        await started(node, node.bind())
        node.run_process(51, UID)
        node.run_process(901, server)
        node.gpus.processes[node.first] = {51: 100, 901: 66}
        node.mps.put(node.first, SILENT)
        looked = node.mps.asked[node.first] + 3
        await quick.until(lambda: has_looked(node, looked))
        assert wanted(node) == set()


async def test_a_tenant_that_goes_round_a_server_that_serves_is_asked_to_go_where_the_compute_mode_lets_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "EVICT_SECONDS", 0.5)
    node = WholeNode(folder)
    async with node.offering():
        for number in (1, 2):
            await started(node, node.bind(number))
            node.run_process(50 + number, CONTAINER_UID.format(number))
        node.gpus.states[node.first] = hardware.Readings(compute_mode=hardware.ComputeMode.DEFAULT)
        node.gpus.processes[node.first] = {51: 100, 52: 100}
        node.mps.put(node.first, replace(node.mps.servers[node.first], clients=(51,)))
        await quick.until(lambda: bool(wanted(node)))
        assert [tenant.get("evict") for tenant in node.gpu()["tenants"]] == [None, "BlocksGPURecovery"]


async def test_nobody_is_asked_to_go_by_a_decision_that_stands_no_longer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the driver has answered late of another GPU, and this one's server serves again meanwhile."""
    node = WholeNode(folder)
    async with node.offering() as agent:
        await started(node, node.bind())
        node.run_process(51, UID)
        weighed = list[None]()
        monkeypatch.setattr(agent.incidents, "recovered", lambda _: weighed.append(None))
        name_for_eviction(agent, node, 51)
        await quick.until(lambda: not agent.serious)
        weighed.clear()
        agent.alarm.set()
        await quick.until(lambda: bool(weighed))
        assert (wanted(node), evictions(agent)) == (set(), False)


async def test_only_tenants_are_asked_to_go_from_a_gpu_that_somebody_else_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = WholeNode(folder)
    async with node.offering() as agent:
        node.run_process(51, UID)
        decision = name_for_eviction(agent, node, 51)
        monkeypatch.setattr(agent.machines, "decision", lambda _: decision)
        await quick.until(lambda: not agent.serious)
        assert wanted(node) == set()
