"""The way of pods through a whole extender, on an API server in memory."""

import asyncio
import json
from typing import Any

from api_server.faults import Fault
from api_server.server import Server
from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import verbs
from cotenant_extender.kube import pods, transport
from cotenant_extender.ledger import drift
from cotenant_extender.queue import reporting
from extender import builders, running, virtual
from extender.running import until

Object = dict[str, Any]


def lifted(to: Server, name: str) -> bool:
    return "schedulingGates" not in to.pod(name)["spec"]


def earmark(to: Server, name: str) -> Object:
    return dict(json.loads(to.pod(name)["metadata"]["annotations"][names.EARMARK]))


def placement(to: Server, name: str) -> Object:
    return dict(json.loads(to.pod(name)["metadata"]["annotations"][names.PLACEMENT]))


def condition(to: Server, name: str) -> Object:
    found = to.pod(name)["status"].get("conditions") or []
    return next((item for item in found if item["type"] == names.PACKED), {})


@virtual.time
async def test_a_pod_is_lifted_filtered_bound_and_told() -> None:
    server = running.server(nodes=3)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: lifted(server, "a"), "lifted")
        assert earmark(server, "a") == {
            "v": 1,
            "node": "n0",
            "gpus": ["GPU-n0-0"],
            "attempt": 1,
            "leader": f"{running.HOLDER}@{builders.NOW:.6f}",
        }
        assert await rig.filtered("a", "n2", "n1", "n0") == ["n0"]
        assert await rig.bound("a", "n0") == ""
        assert placement(server, "a")["gpus"][0]["uuid"] == "GPU-n0-0"
        await until(lambda: condition(server, "a").get("reason") == "Placed", "told")
        assert condition(server, "a")["status"] == "True"
        assert drift.differences(rig.extender.ledger) == []


@virtual.time
async def test_who_was_told_of_its_place_meanwhile_is_not_told_again() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.bound("a", 40, "n0", "GPU-n0-0"))
        await until(lambda: condition(server, "a").get("reason") == "Placed", "told")
        await until(lambda: not rig.extender.ledger.index.unreported, "seen")
        late = reporting.Report(
            record=rig.extender.ledger.pods[PodUID("uid-a")], reason=PackedReason.PLACED, message=""
        )
        rig.extender.writer.reports.put(late, reporting.Reporter())
        await asyncio.sleep(1)
        assert server.sent("PATCH", "/pods/a/status") == 1


@virtual.time
async def test_gate_and_earmark_go_in_one_patch() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: lifted(server, "a"), "lifted")
        assert server.sent("PATCH", "/pods/a") == 1


@virtual.time
async def test_filter_makes_no_request_and_changes_nothing() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: lifted(server, "a"), "lifted")
        await until(lambda: not rig.extender.ledger.pods[PodUID("uid-a")].gates, "known")
        before, version = len(server.requests), rig.extender.ledger.version
        assert await rig.filtered("a", "n1", "n0") == ["n0"]
        assert (len(server.requests), rig.extender.ledger.version) == (before, version)


@virtual.time
async def test_a_pod_that_the_ledger_does_not_know_waits_for_the_queue() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.slip(pods.PODS, builders.pod("a", gates=()))
        assert await rig.filtered("a", "n0") == []


@virtual.time
async def test_a_pod_whose_gate_its_author_removed_is_placed_by_the_queue_after_kube_scheduler_asked() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", gates=()))
        await until(lambda: "uid-a" in rig.extender.ledger.pods, "known")
        assert await rig.filtered("a", "n0") == []
        assert (await rig.bound("a", "n0")).startswith("WaitingForTurn: ")
        report = f"0/1 nodes are available: 1 {': '.join(verbs.NOT_PROMISED)}."
        server.put(pods.PODS, builders.pod("a", gates=(), version=2, unschedulable=report))
        await until(lambda: names.EARMARK in server.pod("a")["metadata"]["annotations"], "earmarked")
        assert await rig.filtered("a", "n0") == ["n0"]
        assert await rig.bound("a", "n0") == ""


@virtual.time
async def test_when_the_earmarked_node_is_not_offered_another_is_chosen() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: lifted(server, "a"), "lifted")
        assert await rig.filtered("a", "n1") == ["n1"]


@virtual.time
async def test_gpus_that_are_earmarked_for_others_are_not_given_away() -> None:
    server = running.server(gpus=1)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", 80))
        await until(lambda: lifted(server, "a"), "lifted")
        server.put(pods.PODS, builders.pod("b", 80, gates=()))
        assert await rig.filtered("b", "n0") == []


@virtual.time
async def test_a_freed_gpu_lifts_the_next_gate() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("first", 90, "n0", "GPU-n0-0"))
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", 50))
        await until(lambda: condition(server, "a").get("reason") == "InsufficientShare", "told why")
        assert not lifted(server, "a")
        server.put(pods.PODS, builders.bound("first", 90, "n0", "GPU-n0-0", phase="Succeeded"))
        await until(lambda: lifted(server, "a"), "lifted")


@virtual.time
async def test_an_unreadable_request_is_told_by_condition_and_event_and_never_lifted() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a", annotations={names.GPU_MEMORY: "lots"}))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: bool(server.events), "event")
        assert condition(server, "a")["reason"] == "InvalidRequest"
        assert server.events[0]["involvedObject"]["uid"] == "uid-a"
        assert not lifted(server, "a")


@virtual.time
async def test_a_pod_that_waits_long_is_told_by_one_event_with_the_words_of_its_condition() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("first", 90, "n0", "GPU-n0-0"))
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", 60))
        await until(lambda: bool(server.events), "event")
        told = condition(server, "a")
        assert (server.events[0]["reason"], server.events[0]["message"]) == (told["reason"], told["message"])
        assert server.events[0]["type"] == "Normal"
        server.put(pods.PODS, builders.pod("b", 70))
        await until(lambda: "2nd" in condition(server, "a")["message"], "told its new place")
        await until(lambda: server.events[0]["message"] == condition(server, "a")["message"], "told again")
        assert [event["involvedObject"]["name"] for event in server.events].count("a") == 1
        assert server.events[0]["count"] == 2


@virtual.time
async def test_without_a_policy_it_is_not_ready_and_says_so() -> None:
    server = running.server()
    server.remove(pods.POLICIES, "default")
    async with running.extender(server) as rig:
        await until(lambda: rig.extender.missing() == ["no PackingPolicy named default"], "said")
        assert not rig.extender.serving()
        server.put(pods.POLICIES, builders.policy())
        await rig.serving()
        assert rig.extender.missing() == []


@virtual.time
async def test_a_policy_that_cannot_be_read_leaves_the_old_one_in_force_and_is_marked() -> None:
    server = running.server(generation=3)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.POLICIES, builders.policy(generation=4, maxTenantsPerGPU=99))

        def conditions() -> Object:
            status = server.all(pods.POLICIES)[0].get("status") or {}
            return {item["type"]: item for item in status.get("conditions") or []}

        await until(lambda: conditions().get("Accepted", {}).get("status") == "False", "marked")
        assert "maxTenantsPerGPU" in conditions()["Accepted"]["message"]
        status = server.all(pods.POLICIES)[0]["status"]
        assert status["observedGeneration"] == 3
        assert rig.extender.ledger.policy is not None
        assert rig.extender.ledger.policy.spec.max_tenants_per_gpu == 3


@virtual.time
async def test_a_changed_policy_takes_effect_at_the_next_placement() -> None:
    server = running.server(gpus=1, maxTenantsPerGPU=1)
    server.put(pods.PODS, builders.bound("first", 10, "n0", "GPU-n0-0"))
    server.put(pods.PODS, builders.pod("a", 10))
    async with running.extender(server) as rig:
        await rig.serving()
        assert not lifted(server, "a")
        server.put(pods.POLICIES, builders.policy(generation=2, maxTenantsPerGPU=2))
        await until(lambda: lifted(server, "a"), "lifted")
        assert await rig.bound("a", "n0") == ""
        assert placement(server, "a")["policyGeneration"] == 2


@virtual.time
async def test_a_lift_whose_reply_was_lost_is_not_repeated_in_vain() -> None:
    server = running.server()
    lost: list[str] = []

    def fault(request: transport.Request) -> Fault | None:
        if request.method == "PATCH" and "status" not in request.path and len(lost) < 4:
            lost.append(request.path)
            return Fault.REPLY_LOST
        return None

    async with running.extender(server) as rig:
        await rig.serving()
        server.fault = fault
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: lifted(server, "a") and len(lost) == 4, "lifted")
        assert await rig.filtered("a", "n0") == ["n0"]
        assert await rig.bound("a", "n0") == ""
        assert earmark(server, "a")["attempt"] == 1


@virtual.time
async def test_a_lift_that_is_refused_gives_its_gpus_back_and_is_tried_again() -> None:
    server = running.server(gpus=1)

    def fault(request: transport.Request) -> Fault | None:
        return Fault.REFUSED if request.method == "PATCH" and request.path.endswith("/a") else None

    async with running.extender(server) as rig:
        await rig.serving()
        server.fault = fault
        server.put(pods.PODS, builders.pod("a", 80))
        await until(lambda: server.sent("PATCH", "/pods/a") > 0, "refused")
        server.put(pods.PODS, builders.pod("b", 80))
        await until(lambda: lifted(server, "b"), "lifted")
        assert rig.extender.metrics.registry.get_sample_value(
            "cotenant_extender_lifts_total", {"kind": "gate", "result": "failed"}
        )


@virtual.time
async def test_an_earmark_whose_renewal_is_refused_is_written_later() -> None:
    server = running.server(gpus=1)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", 60))
        await until(lambda: "schedulingGates" not in server.pod("a")["spec"], "lifted")
        server.put(pods.NODES, builders.node("n0", gpus=1, unschedulable=True))
        await until(lambda: not len(rig.extender.ledger.earmarks), "the earmark ends")
        server.fault = lambda request: Fault.REFUSED if request.method == "PATCH" else None
        server.put(pods.NODES, builders.node("n0", gpus=1))
        patched = server.sent("PATCH", "/pods/a")
        await until(lambda: server.sent("PATCH", "/pods/a") > patched, "refused")
        server.fault = lambda _: None
        await until(lambda: '"attempt":2' in server.pod("a")["metadata"]["annotations"][names.EARMARK], "written")
        assert len(rig.extender.ledger.earmarks) == 1


@virtual.time
async def test_a_pod_that_another_replaced_under_its_name_is_not_lifted_in_its_place() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        server.slip(pods.PODS, builders.pod("a", uid="another"))
        await until(lambda: server.sent("PATCH", "/pods/a") > 0, "patched")
        await rig.extender.writer.finish()
        assert not lifted(server, "a")


def about(server: Server, since: int) -> list[str]:
    """Requests about the pod itself, since so many requests."""
    return [method for method, path in server.requests[since:] if path.endswith("/pods/a")]


@virtual.time
async def test_a_lift_costs_one_request_and_another_read_and_patch_where_the_pod_was_written_meanwhile() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("b"))
        await until(lambda: lifted(server, "b"), "lifted")
        assert server.sent("PATCH", "/pods/b") == 1
        since = len(server.requests)
        server.put(pods.PODS, builders.pod("a"))
        server.slip(pods.PODS, builders.pod("a", annotations={"seen": "yes"}))
        await until(lambda: lifted(server, "a"), "lifted")
        assert about(server, since) == ["PATCH", "GET", "PATCH"]
        assert await rig.bound("a", "n0") == ""


@virtual.time
async def test_a_pod_that_changes_each_time_is_lifted_when_it_rests() -> None:
    server = running.server()
    count = 0

    def touches(request: transport.Request) -> None:
        nonlocal count
        if request.method == "PATCH" and request.path.endswith("/pods/a") and count < 7:
            count += 1
            server.put(pods.PODS, builders.pod("a", annotations={"seen": str(count)}))

    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        server.fault = touches
        await until(lambda: lifted(server, "a"), "lifted")
        assert server.sent("PATCH", "/pods/a") == 8
        assert await rig.bound("a", "n0") == ""


@virtual.time
async def test_a_pod_without_valid_placement_is_deleted_after_a_minute_with_an_event() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a", node="n0"))
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(55)
        assert "deletionTimestamp" not in server.pod("a")["metadata"]
        await until(lambda: "deletionTimestamp" in server.pod("a")["metadata"], "deleted")
        assert server.events[0]["reason"] == "NoPlacement"


@virtual.time
async def test_a_missed_deletion_is_found_after_410() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("first", 90, "n0", "GPU-n0-0"))
    server.put(pods.PODS, builders.pod("a", 50))
    async with running.extender(server) as rig:
        await rig.serving()
        assert not lifted(server, "a")
        server.lose(pods.PODS, "first", "team")
        server.compact()
        await until(lambda: lifted(server, "a"), "lifted")


@virtual.time
async def test_watches_go_on_after_their_connections_broke() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.break_watches()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: lifted(server, "a"), "lifted")
        assert server.sent("GET", pods.PODS) == 2
