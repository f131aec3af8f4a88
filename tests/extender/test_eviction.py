"""Preemption, scale-up and freed GPUs through a whole extender, on an API server in memory."""

import asyncio
from typing import Any

import pytest

from api_server.faults import Fault
from api_server.server import Server
from cotenant_api import names
from cotenant_extender.kube import pods, transport
from extender import builders, running, virtual
from extender.running import until

Object = dict[str, Any]
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def runs(to: Server, name: str, share: int, gpu: str = "GPU-n0-0", **changes: Any) -> None:
    raw = builders.bound(name, share, gpu.split("-")[1], gpu, packed="Placed", **changes)
    raw["status"]["startTime"] = builders.timestamp(builders.NOW - 600)
    to.put(pods.PODS, raw)


def guard(to: Server, app: str) -> None:
    """A budget that allows no disruption."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    to.put(BUDGETS, {"metadata": {"name": app, "namespace": "team"}, "spec": spec})


def leaving(to: Server, name: str) -> bool:
    return not to.has_pod(name) or "deletionTimestamp" in to.pod(name)["metadata"]


def lifted(to: Server, name: str) -> bool:
    return "schedulingGates" not in to.pod(name)["spec"]


def value(rig: running.Rig, name: str, **labels: str) -> float:
    return rig.extender.metrics.registry.get_sample_value(f"cotenant_extender_{name}", labels) or 0.0


@virtual.time
async def test_a_victim_is_evicted_both_are_told_and_the_preemptor_is_placed_when_it_has_gone() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        await until(lambda: len(server.events) == 2, "told")
        said = {(event["involvedObject"]["name"], event["reason"], event["message"]) for event in server.events}
        assert said == {
            ("low", "Preempted", "evicted for team/high of priority 5"),
            ("high", "Preempting", "evicts team/low"),
        }
        assert not lifted(server, "high")
        server.remove(pods.PODS, "low", "team")
        await until(lambda: lifted(server, "high"), "lifted")
        assert server.sent("POST", "/eviction") == 1
        assert value(rig, "evictions_total", result="ok") == 1


@virtual.time
async def test_a_budget_is_honoured_others_are_asked_and_nothing_is_deleted() -> None:
    server = running.server(gpus=2)
    runs(server, "guarded", 80, labels={"app": "web"})
    runs(server, "low", 80, "GPU-n0-1", priority=1)
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        assert not leaving(server, "guarded")
        assert value(rig, "evictions_total", result="refused") == 1
        assert server.sent("DELETE", "/pods/") == 0


@virtual.time
async def test_a_budget_is_asked_again_until_it_allows() -> None:
    server = running.server(gpus=1)
    runs(server, "guarded", 80, labels={"app": "web"})
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(60)
        assert not leaving(server, "guarded")
        assert 2 <= server.sent("POST", "/eviction") <= 4
        server.remove(BUDGETS, "web", "team")
        await until(lambda: leaving(server, "guarded"), "evicted")


@virtual.time
async def test_where_one_of_several_victims_stays_no_more_are_asked() -> None:
    server = running.server(gpus=1)
    runs(server, "a", 40, labels={"app": "web"})
    runs(server, "b", 40)
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 100, priority=5))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: value(rig, "evictions_total", result="refused") == 1, "refused")
        assert not leaving(server, "b")


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.BROKEN, Fault.NOT_SENT])
@virtual.time
async def test_the_reply_to_an_eviction_is_lost(fault: Fault) -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    lost: list[str] = []

    def once(request: transport.Request) -> Fault | None:
        if request.path.endswith("/eviction") and not lost:
            lost.append(request.path)
            return fault
        return None

    server.fault = once
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        server.remove(pods.PODS, "low", "team")
        await until(lambda: lifted(server, "high"), "lifted")


@virtual.time
async def test_after_a_restart_those_who_are_leaving_are_waited_for() -> None:
    server = running.server(gpus=2)
    runs(server, "low", 80)
    runs(server, "other", 80, "GPU-n0-1")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low") or leaving(server, "other"), "evicted")
    asked = server.sent("POST", "/eviction")
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(20)
        assert server.sent("POST", "/eviction") == asked


@virtual.time
async def test_while_paused_nobody_is_evicted() -> None:
    server = running.server(gpus=1, paused=True)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(30)
        assert server.sent("POST", "/eviction") == 0


@virtual.time
async def test_a_freed_gpu_lifts_the_next_gates_within_100_ms() -> None:
    server = running.server(gpus=1)
    runs(server, "a", 80)
    for name in ("b", "c"):
        server.put(pods.PODS, builders.pod(name, 50))
    server.put(pods.PODS, builders.pod("large", 90))
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(3.3)
        began = running.clock()
        done = server.pod("a")
        server.put(pods.PODS, {**done, "status": {**done["status"], "phase": "Succeeded"}})
        await until(lambda: lifted(server, "large"), "lifted")
        assert running.clock() - began <= 0.1
        assert not lifted(server, "b")


@virtual.time
async def test_what_fits_nowhere_is_lifted_without_an_earmark_and_told_so() -> None:
    server = running.server(gpus=1)
    runs(server, "a", 80)
    server.put(pods.PODS, builders.pod("b", 50))
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(29)
        assert not lifted(server, "b")
        await until(lambda: lifted(server, "b"), "lifted")
        assert names.EARMARK not in server.pod("b")["metadata"]["annotations"]
        assert value(rig, "scale_up_lifts_total") == 1
        assert value(rig, "lifts_total", kind="scale-up", result="ok") == 1
        await until(lambda: "WaitingForScaleUp" in str(server.pod("b")["status"]), "told")
        assert server.sent("PATCH", "/pods/b") == 3
        running.clock()
        server.remove(pods.PODS, "a", "team")
        await until(lambda: names.EARMARK in server.pod("b")["metadata"]["annotations"], "earmarked")


@virtual.time
async def test_a_gang_that_was_lifted_for_the_autoscaler_is_placed_by_the_queue_alone() -> None:
    server = running.server(gpus=2)
    runs(server, "a", 80)
    for name in ("g1", "g2"):
        server.put(pods.PODS, builders.pod(name, 60, annotations=builders.gang("g", 2)))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: lifted(server, "g1") and lifted(server, "g2"), "lifted")
        assert await rig.filtered("g1", "n0") == []
        server.remove(pods.PODS, "a", "team")
        await until(lambda: names.EARMARK in server.pod("g2")["metadata"]["annotations"], "earmarked")
        assert await rig.filtered("g1", "n0") == ["n0"]
