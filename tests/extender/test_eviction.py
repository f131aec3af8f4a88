"""Preemption, scale-up and freed GPUs through a whole extender, on an API server in memory."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from api_server.faults import Fault
from api_server.server import Server
from cotenant_api import names
from cotenant_extender import evicting, podreports
from cotenant_extender.kube import pods, transport
from extender import builders, running, virtual
from extender.running import until

Object = dict[str, Any]
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def runs(to: Server, name: str, share: int, gpu: str = "GPU-n0-0", **changes: Any) -> None:
    raw = builders.bound(name, share, gpu.split("-")[1], gpu, packed="Placed", **changes)
    raw["status"]["startTime"] = builders.timestamp(builders.NOW - 600)
    to.put(pods.PODS, raw)


def guard(to: Server, app: str, *, pods: int = 1) -> None:
    """A budget that allows no disruption of so many pods."""
    spec = {"minAvailable": pods, "selector": {"matchLabels": {"app": app}}}
    to.put(BUDGETS, {"metadata": {"name": app, "namespace": "team"}, "spec": spec})


def leaving(to: Server, name: str) -> bool:
    return not to.has_pod(name) or "deletionTimestamp" in to.pod(name)["metadata"]


def end(to: Server, name: str) -> None:
    """A pod succeeds."""
    done = to.pod(name)
    to.put(pods.PODS, {**done, "status": {**done["status"], "phase": "Succeeded"}})


def touch(to: Server, name: str, count: int) -> None:
    """Something else writes a pod's status."""
    now = to.pod(name)
    to.put(pods.PODS, {**now, "status": {**now["status"], "message": f"{count}"}})


def evicts(request: transport.Request) -> bool:
    """Whether a request is an Eviction that is meant: no dry run."""
    return request.path.endswith("/eviction") and b"dryRun" not in (request.body or b"")


def meanwhile(to: Server, befalls: Callable[[int], None]) -> None:
    """What befalls pods while an Eviction is on its way; it is given how many there were before."""
    asked = itertools.count()

    def chosen(request: transport.Request) -> Fault | None:
        if evicts(request):
            befalls(next(asked))
        return None

    to.fault = chosen


def said(to: Server) -> list[Object]:
    """The events of evictions for others."""
    return [event for event in to.events if event["reason"] in ("Preempted", "Preempting")]


def lifted(to: Server, name: str) -> bool:
    return "schedulingGates" not in to.pod(name)["spec"]


def promised(to: Server, name: str) -> bool:
    return names.EARMARK in to.pod(name)["metadata"].get("annotations", {})


def value(rig: running.Rig, name: str, **labels: str) -> float:
    return rig.extender.metrics.registry.get_sample_value(f"cotenant_extender_{name}", labels) or 0.0


@virtual.time
async def test_an_eviction_whose_event_was_answered_to_nobody_is_told_once() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    lost: list[str] = []

    def fault(request: transport.Request) -> Fault | None:
        told = request.path.endswith("/events") and b"Preempted" in (request.body or b"")
        if request.method != "POST" or not told or request.path in lost:
            return None
        lost.append(request.path)
        return Fault.REPLY_LOST

    server.fault = fault
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: len(said(server)) == 2, "told")
        await asyncio.sleep(60)
        assert (len(lost), sorted(event["reason"] for event in said(server))) == (1, ["Preempted", "Preempting"])


@virtual.time
async def test_a_victim_is_evicted_both_are_told_and_the_preemptor_is_placed_when_it_has_gone() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        await until(lambda: len(said(server)) == 2, "told")
        words = {(event["involvedObject"]["name"], event["reason"], event["message"]) for event in said(server)}
        assert words == {
            ("low", "Preempted", "evicted for team/high of priority 5"),
            ("high", "Preempting", "evicts team/low"),
        }
        assert not promised(server, "high")
        server.remove(pods.PODS, "low", "team")
        await until(lambda: promised(server, "high"), "promised")
        assert server.sent("POST", "/eviction") == 1
        assert value(rig, "evictions_total", result="ok") == 1


@virtual.time
async def test_the_report_of_a_pod_that_kube_scheduler_tried_before_is_taken_back_once() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5, gates=(), unschedulable="0/1 nodes are available"))
    written: list[bytes] = []

    def noted(request: transport.Request) -> None:
        if request.method == "PATCH" and podreports.TAKEN_BACK.encode() in (request.body or b""):
            written.append(request.body or b"")

    server.fault = noted
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: podreports.TAKEN_BACK in str(server.pod("high")["status"]), "taken back")
        await asyncio.sleep(100)
        assert len(written) == 1
        assert not leaving(server, "low")
        assert await rig.filtered("high", "n0") == []
        await until(lambda: leaving(server, "low"), "evicted")


@virtual.time
async def test_while_a_victim_is_in_its_long_grace_period_no_other_is_evicted() -> None:
    server = running.server()
    runs(server, "slow", 80, terminationGracePeriodSeconds=900)
    runs(server, "other", 80, "GPU-n0-1", priority=1)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "slow"), "evicted")
        await asyncio.sleep(890)
        assert not leaving(server, "other")
        server.remove(pods.PODS, "slow", "team")
        await until(lambda: promised(server, "high"), "promised")
        assert not leaving(server, "other")


@virtual.time
async def test_a_budget_is_honoured_others_are_asked_and_nothing_is_deleted() -> None:
    server = running.server(gpus=2)
    runs(server, "guarded", 80, labels={"app": "web"})
    runs(server, "low", 80, "GPU-n0-1", priority=1)
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        assert not leaving(server, "guarded")
        assert value(rig, "evictions_total", result="refused") == 1
        assert server.sent("DELETE", "/pods/") == 0


@virtual.time
async def test_many_pods_of_one_budget_cost_one_request_before_another_is_asked() -> None:
    server = running.server(nodes=3, gpus=4)
    for index in range(11):
        node = index // 4
        runs(server, f"guarded{index}", 80, f"GPU-n{node}-{index % 4}", labels={"app": "web"})
    runs(server, "low", 80, "GPU-n2-3", priority=1)
    guard(server, "web", pods=11)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        assert server.sent("POST", "/eviction") == 2


@virtual.time
async def test_a_budget_that_cannot_be_read_protects_none_but_the_pod_that_was_asked() -> None:
    server = running.server(gpus=2)
    runs(server, "guarded", 80, labels={"app": "web"})
    runs(server, "low", 80, "GPU-n0-1", priority=1)
    guard(server, "web")
    server.fault = lambda request: Fault.REFUSED if "/poddisruptionbudgets/" in request.path else None
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")


@virtual.time
async def test_a_budget_is_asked_again_until_it_allows() -> None:
    server = running.server(gpus=1)
    runs(server, "guarded", 80, labels={"app": "web"})
    guard(server, "web")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
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
    async with running.extender(server, tries=True) as rig:
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
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        await until(lambda: len(said(server)) == 2, "told")
        server.remove(pods.PODS, "low", "team")
        await until(lambda: promised(server, "high"), "promised")
        assert value(rig, "evictions_total", result="ok") == 1


@virtual.time
async def test_a_victim_that_succeeds_just_before_its_eviction_stays_and_the_preemptor_is_placed() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    meanwhile(server, lambda count: None if count else end(server, "low"))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: promised(server, "high"), "promised")
        assert not leaving(server, "low")
        assert said(server) == []
        assert value(rig, "evictions_total", result="changed") == 1


@virtual.time
async def test_where_a_victim_has_succeeded_its_gang_is_not_evicted_for_nothing() -> None:
    server = running.server(gpus=2)
    for number in range(2):
        runs(server, f"g{number}", 80, f"GPU-n0-{number}", annotations=builders.gang("g", 2))
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    meanwhile(server, lambda count: None if count else end(server, "g0"))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: promised(server, "high"), "promised")
        assert not leaving(server, "g0")
        assert not leaving(server, "g1")


@virtual.time
async def test_a_victim_whose_status_was_written_meanwhile_is_evicted_all_the_same() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    meanwhile(server, lambda count: None if count else touch(server, "low", count))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        await until(lambda: len(said(server)) == 2, "told")
        assert server.sent("POST", "/eviction") == 2
        assert value(rig, "evictions_total", result="ok") == 1


@virtual.time
async def test_a_victim_that_changes_all_the_time_is_left_alone_for_a_while_and_nothing_stays_held_for_it() -> None:
    server = running.server(gpus=2)
    runs(server, "restless", 80)
    runs(server, "low", 80, "GPU-n0-1", priority=1)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    meanwhile(server, lambda count: touch(server, "restless", count))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low"), "evicted")
        assert server.sent("POST", "/restless/eviction") == evicting.ATTEMPTS
        assert value(rig, "evictions_total", result="failed") == 1
        assert not leaving(server, "restless")


@virtual.time
async def test_a_victim_that_was_replaced_by_another_of_its_name_is_not_taken_for_it() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))

    def replace(count: int) -> None:
        if not count:
            server.remove(pods.PODS, "low", "team")
            server.put(pods.PODS, builders.pod("low", 80, uid="uid-another"))

    meanwhile(server, replace)
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: promised(server, "high"), "promised")
        assert not leaving(server, "low")
        assert value(rig, "evictions_total", result="gone") == 1


@virtual.time
async def test_a_pod_of_a_gang_bound_in_part_that_succeeds_just_before_its_eviction_stays() -> None:
    server = running.server(gpus=2)
    runs(server, "g0", 80, annotations=builders.gang("g", 2))
    server.put(pods.PODS, builders.pod("g1", 80, gates=(), annotations=builders.gang("g", 2)))
    meanwhile(server, lambda count: None if count else end(server, "g0"))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: not server.has_pod("g1"), "evicted")
        await until(lambda: len(server.events) == 1, "told")
        assert not leaving(server, "g0")
        assert value(rig, "removals_total", reason="GangSplit", result="changed") == 1
        assert value(rig, "removals_total", reason="GangSplit", result="ok") == 1


@virtual.time
async def test_after_a_restart_those_who_are_leaving_are_waited_for() -> None:
    server = running.server(gpus=2)
    runs(server, "low", 80)
    runs(server, "other", 80, "GPU-n0-1")
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: leaving(server, "low") or leaving(server, "other"), "evicted")
    asked = server.sent("POST", "/eviction")
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(20)
        assert server.sent("POST", "/eviction") == asked


@virtual.time
async def test_while_paused_nobody_is_evicted() -> None:
    server = running.server(gpus=1, paused=True)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
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
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(3.3)
        began = running.clock()
        done = server.pod("a")
        server.put(pods.PODS, {**done, "status": {**done["status"], "phase": "Succeeded"}})
        await until(lambda: promised(server, "large"), "promised")
        assert running.clock() - began <= 0.1
        assert not promised(server, "b")


@virtual.time
async def test_what_fits_nowhere_is_lifted_without_an_earmark_and_told_so() -> None:
    server = running.server(gpus=1)
    runs(server, "a", 80)
    server.put(pods.PODS, builders.pod("b", 50))
    async with running.extender(server, tries=True) as rig:
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
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: lifted(server, "g1") and lifted(server, "g2"), "lifted")
        assert await rig.filtered("g1", "n0") == []
        server.remove(pods.PODS, "a", "team")
        await until(lambda: names.EARMARK in server.pod("g2")["metadata"]["annotations"], "earmarked")
        assert await rig.filtered("g1", "n0") == ["n0"]


@virtual.time
async def test_a_gang_that_lost_a_pod_runs_on_while_another_waits_for_a_node_and_under_a_new_leader_too() -> None:
    server = running.server()
    notes = builders.gang("g", 2)
    for name in "ab":
        server.put(pods.PODS, builders.pod(name, annotations=notes))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        for name in "ab":
            await until(lambda: promised(server, "a") and promised(server, "b"), "promised")
            assert await rig.bound(name, "n0") == ""
        await asyncio.sleep(200)
        server.remove(pods.PODS, "b", "team")
        server.put(pods.PODS, builders.pod("b2", annotations=notes, created=running.clock()))
        await until(lambda: promised(server, "b2"), "promised")
        await asyncio.sleep(600)
        assert not leaving(server, "a")
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(600)
        assert not leaving(server, "a")
        assert not leaving(server, "b2")


def slow(to: Server, befalls: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Evictions take three seconds; what happens while the first of them is under way."""
    answer, asked = to.request, itertools.count()

    async def slowly(request: transport.Request) -> transport.Answer:
        if evicts(request):
            if not next(asked):
                await befalls()
            await asyncio.sleep(3)
        return await answer(request)

    to.request = slowly  # type: ignore[method-assign]


def three_victims(to: Server) -> None:
    for number in range(3):
        runs(to, f"low{number}", 33)
    to.put(pods.PODS, builders.pod("high", 100, priority=5))


@virtual.time
async def test_no_more_victims_are_evicted_for_a_job_that_has_gone() -> None:
    server = running.server(gpus=1)
    three_victims(server)

    async def gone() -> None:
        server.remove(pods.PODS, "high", "team")

    slow(server, gone)
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await asyncio.sleep(60)
        assert [leaving(server, f"low{number}") for number in range(3)] == [True, False, False]


@virtual.time
async def test_no_more_victims_are_evicted_in_another_term() -> None:
    server = running.server(gpus=1)
    three_victims(server)
    async with running.extender(server, tries=True) as rig:

        async def terms() -> None:
            server.remove(pods.PODS, "high", "team")
            for holder in ("other_1", running.HOLDER):
                rig.holder = holder
                running.renew(server, holder, now=running.clock())
                await asyncio.sleep(4)

        slow(server, terms)
        await rig.serving()
        await asyncio.sleep(60)
        assert rig.extender.serving()
        assert [leaving(server, f"low{number}") for number in range(3)] == [True, False, False]


@virtual.time
async def test_a_victim_that_cannot_be_marked_after_a_lost_reply_is_left_alone_for_a_while() -> None:
    server = running.server(gpus=1)
    runs(server, "low", 80)
    server.put(pods.PODS, builders.pod("high", 60, priority=5))

    def chosen(request: transport.Request) -> Fault | None:
        if request.path.endswith("/eviction"):
            return Fault.NOT_SENT
        return Fault.REFUSED if request.method == "PATCH" and request.path.endswith("/pods/low") else None

    server.fault = chosen
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: value(rig, "evictions_total", result="failed") == 1, "given up")
        assert server.sent("PATCH", "/pods/low") == evicting.FENCE_TRIES
        server.fault = lambda _: None
        await until(lambda: leaving(server, "low"), "evicted in the end")


@pytest.mark.parametrize("fault", [None, Fault.REPLY_LOST, Fault.NOT_SENT])
@virtual.time
async def test_a_report_that_stands_is_taken_back_before_a_gpu_is_promised(fault: Fault | None) -> None:
    server = running.server(gpus=1)
    report = "0/1 nodes are available: 1 InsufficientShare: 1 GPU lacks share."
    found: list[str] = []

    def noted(request: transport.Request) -> Fault | None:
        if request.method != "PATCH" or "/pods/a" not in request.path:
            return None
        found.append("report" if request.path.endswith("/status") else "promise")
        return fault if len(found) == 1 else None

    server.fault = noted
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", 60, gates=(), unschedulable=report))
        await until(lambda: names.EARMARK in server.pod("a")["metadata"]["annotations"], "promised")
        assert podreports.TAKEN_BACK in str(server.pod("a")["status"])
        before = found[: found.index("promise")]
        assert before == ["report"] * len(before) != []
