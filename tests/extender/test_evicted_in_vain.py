"""Nobody is evicted for a job that a PodDisruptionBudget of another victim keeps waiting."""

import asyncio
from typing import Any

import pytest

from api_server.faults import Fault
from api_server.server import Server
from cotenant_extender.kube import pods, transport
from extender import builders, running, virtual
from extender.running import until
from extender.test_eviction import BUDGETS, evicts, leaving, runs, value

Object = dict[str, Any]


def guard(to: Server, name: str, *, least: int = 1, namespace: str = "team") -> None:
    """A budget that leaves at least so many pods of the app of its name."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}
    to.put(BUDGETS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def beside(to: Server, count: int) -> None:
    """On each GPU of a node an honest pod and one that a budget of its own protects; a job that needs a whole GPU."""
    for number in range(count):
        gpu, app = f"GPU-n0-{number}", f"own{number}"
        runs(to, f"honest{number}", 50, gpu)
        runs(to, app, 50, gpu, labels={"app": app})
        guard(to, app)
    to.put(pods.PODS, builders.pod("high", 100, priority=5))


def asked(to: Server) -> list[str]:
    """Notes the names of the pods that are asked to leave, and of those in dry runs with a question mark."""
    found: list[str] = []

    def chosen(request: transport.Request) -> None:
        if request.path.endswith("/eviction"):
            found.append(request.path.split("/")[-2] + ("" if evicts(request) else "?"))

    to.fault = chosen
    return found


@virtual.time
async def test_nobody_is_evicted_beside_a_pod_that_its_own_budget_keeps() -> None:
    server = running.server(gpus=4)
    beside(server, 4)
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(3600)
        assert not any(leaving(server, f"honest{number}") for number in range(4))
        assert value(rig, "evictions_total", result="refused") > 4
        server.remove(BUDGETS, "own2", "team")
        await until(lambda: leaving(server, "own2"), "evicted", seconds=400)
        assert [leaving(server, f"honest{number}") for number in range(4)] == [False, False, True, False]


@virtual.time
async def test_victims_of_one_budget_leave_only_where_it_allows_them_all() -> None:
    server = running.server(gpus=1)
    for number in range(3):
        runs(server, f"low{number}", 33, labels={"app": "web"})
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(600)
        assert not any(leaving(server, f"low{number}") for number in range(3))
        assert value(rig, "evictions_total", result="refused") > 1
        guard(server, "web", least=0)
        await until(lambda: all(leaving(server, f"low{number}") for number in range(3)), "evicted", seconds=400)


@virtual.time
async def test_a_gang_of_which_its_budget_allows_a_part_stays_whole() -> None:
    server = running.server(gpus=2)
    for number in range(2):
        notes = builders.gang("g", 2)
        runs(server, f"g{number}", 80, f"GPU-n0-{number}", annotations=notes, labels={"app": "g"})
    guard(server, "g")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(600)
        assert not any(leaving(server, f"g{number}") for number in range(2))


@virtual.time
async def test_a_pod_that_does_not_run_yet_may_leave_beside_the_disruptions_that_its_budget_allows() -> None:
    server = running.server(nodes=2, gpus=1)
    for number in range(2):
        runs(server, f"low{number}", 40, labels={"app": "web"})
    raw = server.pod("low1")
    server.put(pods.PODS, {**raw, "status": {"phase": "Pending"}})
    runs(server, "elsewhere", 100, "GPU-n1-0", labels={"app": "web"}, priority=9)
    guard(server, "web", least=1)
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low0") and leaving(server, "low1"), "evicted")


@virtual.time
async def test_one_victim_alone_is_not_asked_about_beforehand() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    found = asked(server)
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        assert found == ["low"]


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.NOT_SENT, Fault.BUSY, Fault.BROKEN])
@virtual.time
async def test_no_answer_to_a_dry_run_is_no_refusal(fault: Fault) -> None:
    server = running.server(gpus=1)
    for name in "ab":
        runs(server, name, 50)
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    server.fault = lambda request: fault if b"dryRun" in (request.body or b"") else None
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "a") and leaving(server, "b"), "evicted", seconds=120)
        assert value(rig, "evictions_total", result="refused") == 0


@virtual.time
async def test_a_dry_run_whose_answer_is_lost_is_sent_again() -> None:
    server = running.server(gpus=1)
    runs(server, "a", 50)
    runs(server, "b", 50, labels={"app": "web"})
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    lost: list[str] = []

    def chosen(request: transport.Request) -> Fault | None:
        if "/b/eviction" in request.path and len(lost) < 2:
            lost.append(request.path)
            return Fault.REPLY_LOST
        return None

    server.fault = chosen
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: value(rig, "evictions_total", result="refused") == 1, "refused")
        assert not leaving(server, "a")


@virtual.time
async def test_nobody_is_evicted_beside_a_pod_whose_eviction_admission_refuses() -> None:
    server = running.server(gpus=1)
    for name in "ab":
        runs(server, name, 50)
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    server.fault = lambda request: Fault.REFUSED if "/b/eviction" in request.path else None
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(600)
        assert not leaving(server, "a")
        assert value(rig, "evictions_total", result="failed") > 1


@virtual.time
async def test_where_budgets_cannot_be_listed_victims_of_one_namespace_go_before_others() -> None:
    server = running.server(gpus=1, tenancy="Any")
    runs(server, "honest", 30, namespace="honest")
    for number in range(2):
        runs(server, f"low{number}", 30, labels={"app": "web"})
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    server.fault = lambda request: Fault.REFUSED if "poddisruptionbudgets?" in request.path else None
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: value(rig, "evictions_total", result="refused") == 1, "refused")
        assert [leaving(server, f"low{number}") for number in range(2)] == [True, False]
        assert "deletionTimestamp" not in server.pod("honest", "honest")["metadata"]


@virtual.time
async def test_a_replica_that_waits_for_a_gpu_makes_room_for_no_disruption_of_those_that_run() -> None:
    server = running.server(gpus=2)
    for number in range(4):
        runs(server, f"web{number}", 50, f"GPU-n0-{number // 2}", labels={"app": "web"})
    server.put(pods.PODS, builders.pod("web4", 50, labels={"app": "web"}))
    guard(server, "web", least=3)
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(1800)
        assert not any(leaving(server, f"web{number}") for number in range(4))
        assert value(rig, "evictions_total", result="refused") > 1
