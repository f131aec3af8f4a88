"""Writes are begun, and end with the extender; what a late reply says counts as of when it was asked."""

import asyncio
import inspect

import pytest

from api_server.faults import Fault
from cotenant_api import gpunode
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import writer
from cotenant_extender.kube import pods, transport
from cotenant_extender.queue import cleanup, earmarking
from extender import builders, running, virtual


async def nothing() -> None:
    """A write."""


@virtual.time
async def test_a_write_that_is_cancelled_before_it_begins_leaves_nothing_behind() -> None:
    writes = running.Rig(running.server(), holder="", assume_leader=True, wall=running.clock).extender.writer
    work, before = nothing(), asyncio.all_tasks()
    writes.start(work)
    writes.start_once("key", nothing)
    begun = asyncio.all_tasks() - before
    for task in begun:
        task.cancel()
    await asyncio.wait(begun)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    assert all(task.cancelled() for task in begun)


@virtual.time
async def test_a_late_reply_that_a_gpunode_is_gone_does_not_remove_one_that_was_made_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = running.server()
    server.put(pods.PODS, builders.bound("a", 40, "n0", "GPU-n0-0", packed="Placed"))
    answer, asked, replies = server.request, asyncio.Event(), asyncio.Event()

    async def late(request: transport.Request) -> transport.Answer:
        found = await answer(request)
        if request.method == "GET" and request.path.endswith("gpunodes/n0"):
            asked.set()
            await replies.wait()
        return found

    monkeypatch.setattr(server, "request", late)
    async with running.extender(server) as rig:
        await rig.serving()
        source = rig.extender.ledger
        server.remove(pods.GPUNODES, "n0")
        server.remove(pods.PODS, "a", "team")
        await asked.wait()
        server.put(pods.GPUNODES, builders.gpunode("n0"))
        await running.until(lambda: source.offers(NodeName("n0")), "the GPUNode is known again")
        replies.set()
        await running.until(lambda: not source.graves.doubtful, "the pod has ended")
        assert source.offers(NodeName("n0"))
        assert source.claims == {}


@virtual.time
async def test_a_gate_is_lifted_for_the_autoscaler_only_while_the_extender_that_decided_it_serves() -> None:
    server = running.server(nodes=0)
    async with running.extender(server) as rig:
        await rig.serving()
        for name in ("first", "last"):
            server.put(pods.PODS, builders.pod(name))
        await running.until(lambda: "uid-last" in rig.extender.ledger.pods, "known")
        server.fault = lambda request: Fault.HANGS if request.method == "PATCH" else None
        asked = [*["first"] * writer.LIFTS, "last"]
        known = [rig.extender.ledger.pods[PodUID(f"uid-{name}")] for name in asked]
        lifts = [earmarking.Lift(record=record, earmark=None) for record in known]
        begun = [asyncio.ensure_future(rig.extender.writer.lift(lift)) for lift in lifts]
        await asyncio.sleep(1)
        rig.extender.leader.step_down()
        server.fault = lambda _: None
        await asyncio.wait(begun)
        assert "schedulingGates" in server.pod("last")["spec"]


@virtual.time
async def test_who_is_named_no_longer_when_his_turn_comes_is_not_evicted() -> None:
    server = running.server(gpus=2)
    reason = gpunode.EvictionReason.BLOCKS_RECOVERY
    for number, name in enumerate(("first", "last")):
        server.put(pods.PODS, builders.bound(name, 40, "n0", f"GPU-n0-{number}", packed="Placed"))
    async with running.extender(server) as rig:
        await rig.serving()
        ledger, write = rig.extender.ledger, rig.extender.writer
        await running.until(lambda: "uid-last" in ledger.pods, "known")
        server.fault = lambda request: Fault.HANGS if request.method == "POST" else None
        uids = [*[PodUID("uid-first")] * writer.REMOVALS, PodUID("uid-last")]
        ledger.asked[NodeName("n0")] = dict.fromkeys(uids, reason)
        asked = [cleanup.Removal(record=ledger.pods[uid], evict=True, reason=reason, message="") for uid in uids]
        begun = [asyncio.ensure_future(write.remove(removal)) for removal in asked]
        await asyncio.sleep(1)
        del ledger.asked[NodeName("n0")]
        server.fault = lambda _: None
        await asyncio.wait(begun)
        assert (server.sent("POST", "/pods/first/eviction") > 0, server.sent("POST", "/pods/last/eviction")) == (
            True,
            0,
        )
