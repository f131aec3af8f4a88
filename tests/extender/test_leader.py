"""Who serves, from when, and with what it takes over."""

import asyncio
import copy
import json
from typing import Any

import orjson
import pytest

from api_server.faults import Fault
from api_server.server import Server
from cotenant_api import exposition, names, placement
from cotenant_api.names import PodUID
from cotenant_extender import leader, leadership, records
from cotenant_extender.kube import pods, transport
from cotenant_extender.ledger import claims, earmarks
from cotenant_extender.queue import cleanup
from extender import builders, running, virtual
from extender.builders import NOW
from extender.running import until

Object = dict[str, Any]


def lease(holder: str, **changes: Any) -> records.Lease:
    return records.lease_record(builders.lease("cotenant-scheduler", holder, **changes))


def test_it_leads_while_its_own_scheduler_holds_the_lease() -> None:
    leading = leadership.Leadership("host", assume=False)
    assert not leading.leads(now=NOW)
    leading.observe(lease("host_12ab"))
    assert leading.leads(now=NOW + 14.9)
    assert not leading.leads(now=NOW + 15)


def test_a_host_whose_name_begins_alike_is_another() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host-2_12ab"))
    assert not leading.leads(now=NOW)
    leading.observe(lease("host"))
    assert not leading.leads(now=NOW)


def test_a_binding_ends_before_the_lease_does() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host_12ab"))
    leading.served = term = leading.term
    assert leading.binding_seconds(term, now=NOW) == leadership.BINDING_SECONDS
    assert leading.binding_seconds(term, now=NOW + 12) == 15 - 12 - leadership.MARGIN_SECONDS
    assert leading.binding_seconds(term, now=NOW + 16) == 0


def test_no_binding_is_sent_before_it_has_taken_over() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host_12ab"))
    assert leading.leads(now=NOW)
    assert not leading.serves(now=NOW)
    assert leading.binding_seconds(leading.term, now=NOW) == 0


def test_what_was_decided_in_one_term_is_not_bound_in_another() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host_1"))
    leading.served = first = leading.term
    leading.observe(lease("other_1", renewed=NOW + 1))
    leading.observe(lease("host_2", renewed=NOW + 2))
    assert leading.leads(now=NOW + 2)
    assert not leading.serves(now=NOW + 2)
    assert leading.binding_seconds(first, now=NOW + 2) == 0
    leading.served = second = leading.term
    assert leading.binding_seconds(first, now=NOW + 2) == 0
    assert leading.binding_seconds(second, now=NOW + 2) == leadership.BINDING_SECONDS


def test_where_it_is_told_to_it_leads_without_a_lease() -> None:
    leading = leadership.Leadership("host", assume=True)
    assert leading.leads(now=NOW)
    leading.served = leading.term
    assert leading.binding_seconds(leading.term, now=NOW) == leadership.BINDING_SECONDS


@virtual.time
async def test_while_another_leads_it_lifts_nothing_and_does_not_serve() -> None:
    server = running.server(holder="other_1")
    server.put(pods.PODS, builders.pod("a"))
    async with running.extender(server, holder="other_1") as rig:
        await until(lambda: not rig.extender.missing(), "whole")
        await asyncio.sleep(30)
        assert not rig.extender.serving()
        assert "other_1" in rig.extender.standing()
        assert server.sent("PATCH", "/pods/a") == 0
        # So that an alert can tell that pods wait and nobody leads.
        assert b"cotenant_extender_queue_pods 1.0" in rig.extender.metrics.text(exposition.Audience.ANYBODY)


@virtual.time
async def test_it_serves_at_once_where_no_binding_can_be_in_flight() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a"))
    async with running.extender(server) as rig:
        await rig.serving()
        assert running.clock() - NOW < 1


def sends(server: Server, name: str) -> transport.Request:
    """The Binding that a former leader sends for a pod as it is now."""
    record = records.pod_record(server.pod(name))
    placed = placement.Placement.from_json(
        builders.bound(name, record.share, "n0", "GPU-n0-0")["metadata"]["annotations"][names.PLACEMENT], source="test"
    )
    path = pods.pod_path(record.namespace, record.name, "binding")
    return transport.Request("POST", path, orjson.dumps(pods.binding(record, placed)))


@virtual.time
async def test_a_binding_of_a_former_leader_that_arrives_late_is_refused() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.pod("a", 90, gates=()))
    late = sends(server, "a")
    async with running.extender(server) as rig:
        await rig.serving()
        assert running.clock() - NOW < 1
        assert (await server.request(late)).status == 409
        assert "nodeName" not in server.pod("a")["spec"]


@virtual.time
async def test_a_binding_of_a_former_leader_that_arrives_while_it_is_fenced_counts() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.pod("a", 90, gates=()))
    late = [sends(server, "a")]

    def arrives_first(request: transport.Request) -> None:
        if request.method == "PATCH" and late:
            server.handlers.answer(late.pop())

    server.fault = arrives_first
    async with running.extender(server) as rig:
        await rig.serving()
        assert [claim.kind for claim in rig.extender.ledger.claims.values()] == [claims.Kind.BOUND]


@virtual.time
async def test_a_new_leader_fences_pods_whose_lift_it_has_not_seen() -> None:
    server = running.server(holder="other_1")
    server.put(pods.PODS, builders.pod("a"))
    async with running.extender(server, holder="other_1") as rig:
        await asyncio.sleep(1)
        server.slip(pods.PODS, builders.pod("a", gates=()))
        late = sends(server, "a")
        rig.holder = running.HOLDER
        await rig.serving()
        assert (await server.request(late)).status == 409


@virtual.time
async def test_nothing_is_served_before_every_pod_is_fenced() -> None:
    server = running.server()
    for name in "abc":
        server.put(pods.PODS, builders.pod(name, gates=()))
    server.fault = lambda request: Fault.NOT_SENT if request.path.endswith("/pods/b") else None
    async with running.extender(server) as rig:
        await asyncio.sleep(60)
        assert not rig.extender.serving()
        assert server.sent("PATCH", "/pods/a") == 1
        server.fault = lambda _: None
        await rig.serving()


@virtual.time
async def test_a_pod_that_cannot_be_marked_is_not_bound_and_keeps_nobody_waiting() -> None:
    server = running.server()
    for name in "ab":
        server.put(pods.PODS, builders.pod(name, gates=()))
    server.fault = lambda request: Fault.REFUSED if request.path.endswith("/pods/b") else None
    async with running.extender(server) as rig:
        await rig.serving()
        assert await rig.bound("a", "n0") == ""
        assert await rig.bound("b", "n0") == "the pod does not bear the mark of this extender"
        server.fault = lambda _: None
        await until(lambda: "uid-b" in rig.extender.ledger.pods, "known")
        await until(lambda: "leader" in (rig.extender.ledger.pods[PodUID("uid-b")].earmark or ""), "marked")
        assert await rig.bound("b", "n0") == ""


@virtual.time
async def test_an_extender_that_steps_down_tells_of_no_gpu() -> None:
    server = running.server(gpus=1)
    for name in "ab":
        server.put(pods.PODS, builders.bound(name, 60, "n0", "GPU-n0-0"))
    async with running.extender(server) as rig:
        await rig.serving()
        gauge = "cotenant_extender_overbooked_gpus"
        await until(lambda: rig.extender.metrics.registry.get_sample_value(gauge) == 1, "told")
        rig.holder = ""
        await until(lambda: not rig.extender.serving(), "stepped down")
        await until(lambda: rig.extender.metrics.registry.get_sample_value(gauge) == 0, "told no longer")
        told = rig.extender.metrics.registry.get_sample_value
        assert told("cotenant_extender_gpus", {"state": "in_use"}) is None
        assert told("cotenant_extender_packing_efficiency_ratio") == 0


@virtual.time
async def test_what_a_later_leader_has_marked_is_not_bound() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: names.EARMARK in server.pod("a")["metadata"]["annotations"], "promised")
        # The queue, which would earmark it again, does not come to it.
        vars(rig.extender.leader)["_work"] = lambda: 0.0
        marked = copy.deepcopy(server.pod("a"))
        note = {**json.loads(earmark_of(server)), "leader": "other_1@1.0", "attempt": 2}
        marked["metadata"]["annotations"][names.EARMARK] = json.dumps(note)
        server.put(pods.PODS, marked)
        await until(lambda: "other_1" in (rig.extender.ledger.pods[PodUID("uid-a")].earmark or ""), "seen")
        assert await rig.bound("a", "n0") == "the pod does not bear the mark of this extender"
        assert server.sent("POST", "/binding") == 0


@virtual.time
async def test_who_wakes_beside_a_later_leader_neither_lifts_over_its_mark_nor_binds_and_steps_down() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        note = json.dumps({"v": 1, "node": "n0", "gpus": ["GPU-n0-1"], "attempt": 1, "leader": "other_1@1.000000"})
        # It stood still, and its clock too, while another took the Lease, lifted the pod and marked it.
        rig.holder = ""
        server.slip(running.LEASES, builders.lease(names.SCHEDULER_LEASE, "other_1", renewed=running.clock()))
        server.put(pods.PODS, builders.pod("a"))
        server.slip(pods.PODS, builders.pod("a", gates=(), annotations={names.EARMARK: note}))
        await until(lambda: server.sent("PATCH", "/pods/a") > 0, "lifted late")
        await until(lambda: server.sent("GET", names.SCHEDULER_LEASE) > 0, "asked who leads")
        await until(lambda: not rig.extender.serving(), "it knows that another leads")
        assert json.loads(earmark_of(server))["leader"] == "other_1@1.000000"
        assert server.sent("GET", names.SCHEDULER_LEASE) == 1
        assert await rig.bound("a", "n0") == "the pod does not bear the mark of this extender"


@virtual.time
async def test_who_is_overtaken_while_it_fences_writes_no_mark_over_that_of_the_later_leader() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a", gates=()))
    async with running.extender(server) as rig:

        def overtaken(request: transport.Request) -> Fault | None:
            if (request.method, request.path.rpartition("/")[2]) == ("PATCH", "a") and rig.holder:
                # Its watches do not tell it: another took the Lease, and marked the pod first.
                rig.holder = ""
                server.slip(running.LEASES, builders.lease(names.SCHEDULER_LEASE, "other_1", renewed=running.clock()))
                note = json.dumps({"v": 1, "node": "n0", "gpus": ["GPU-n0-1"], "leader": "other_1@1.000000"})
                server.slip(pods.PODS, builders.pod("a", gates=(), annotations={names.EARMARK: note}))
            return None

        server.fault = overtaken
        await until(lambda: server.sent("GET", names.SCHEDULER_LEASE) > 1, "asked again who leads")
        await asyncio.sleep(5)
        assert json.loads(earmark_of(server))["leader"] == "other_1@1.000000"
        assert server.sent("PATCH", "/pods/a") == 1
        assert not rig.extender.serving()


@virtual.time
async def test_a_pod_that_a_former_leader_lifts_late_is_earmarked_again_and_bound() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        note = json.dumps({"v": 1, "node": "n0", "gpus": ["GPU-n0-0"], "attempt": 1, "leader": "other_1@1.0"})
        server.put(pods.PODS, builders.pod("a", gates=(), annotations={names.EARMARK: note}))
        await until(lambda: "other_1" not in earmark_of(server), "earmarked again")
        await until(lambda: "other_1" not in (rig.extender.ledger.pods[PodUID("uid-a")].earmark or ""), "seen")
        assert await rig.bound("a", "n0") == ""


@virtual.time
async def test_it_steps_down_when_the_lease_expires_and_takes_over_again() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        rig.holder = ""
        await asyncio.sleep(running.LEASE_SECONDS + 3)
        assert not rig.extender.serving()
        server.put(pods.PODS, builders.pod("a"))
        await asyncio.sleep(5)
        assert "schedulingGates" in server.pod("a")["spec"]
        rig.holder = running.HOLDER
        await until(lambda: names.EARMARK in server.pod("a")["metadata"]["annotations"], "promised")


@virtual.time
async def test_who_slept_while_another_led_lists_again_before_it_serves() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        # Another binds a pod, of which the watch has not told yet; then its own kube-scheduler leads, started anew.
        server.slip(pods.PODS, builders.bound("a", 90, "n0", "GPU-n0-0"))
        rig.holder = "host_5678"
        for holder in ("other_1", rig.holder):
            running.renew(server, holder, now=running.clock())
        await until(lambda: rig.extender.leadership.term != rig.extender.leadership.served, "another term")
        assert not rig.extender.serving()
        await rig.serving()
        assert [claim.kind for claim in rig.extender.ledger.claims.values()] == [claims.Kind.BOUND]


@virtual.time
async def test_earmarks_are_rebuilt_from_the_pods() -> None:
    server = running.server(nodes=2, gpus=1)
    note = json.dumps({"v": 1, "node": "n1", "gpus": ["GPU-n1-0"]})
    server.put(pods.PODS, builders.pod("a", 80, gates=(), annotations={names.EARMARK: note}))
    server.put(pods.PODS, builders.pod("b", 80))
    server.put(pods.PODS, builders.pod("c", 80))
    async with running.extender(server) as rig:
        await rig.serving()
        assert await rig.filtered("a", "n0", "n1") == ["n1"]
        await asyncio.sleep(5)
        gated = [name for name in "bc" if "schedulingGates" in server.pod(name)["spec"]]
        assert gated == ["c"]
        assert server.sent("PATCH", "/pods/a") == 1
        assert json.loads(earmark_of(server)) == {
            "v": 1,
            "node": "n1",
            "gpus": ["GPU-n1-0"],
            "attempt": 2,
            "leader": f"{running.HOLDER}@{NOW:.6f}",
        }


@virtual.time
async def test_an_earmark_that_cannot_be_read_is_made_anew() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a", gates=(), annotations={names.EARMARK: "{"}))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: json.loads(earmark_of(server)).get("node") == "n0", "earmarked")


def earmark_of(server: Server, name: str = "a") -> str:
    text = str(server.pod(name)["metadata"]["annotations"][names.EARMARK])
    return text if text != "{" else "{}"


@virtual.time
async def test_with_assume_leader_it_serves_without_a_lease() -> None:
    server = running.server(holder="other_1")
    async with running.extender(server, holder="other_1", assume_leader=True) as rig:
        await rig.serving()


@pytest.mark.parametrize("seconds", [-3600.0, -5.0, 5.0, 3600.0])
@virtual.time
async def test_a_clock_that_is_set_stops_neither_passes_nor_conditions_nor_chores(seconds: float) -> None:
    ahead = 0.0
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("a", 90, "n0", "GPU-n0-0"))
    async with running.extender(server, wall=lambda: running.clock() + ahead) as rig:
        await rig.serving()
        await asyncio.sleep(5)
        ahead = seconds
        await asyncio.sleep(5)
        await rig.serving()
        recounts = rig.extender.metrics.registry.get_sample_value("cotenant_extender_ledger_recounts_total")
        server.put(pods.PODS, builders.pod("b", 90))
        await until(lambda: reason(server, "b") != "", "told why it waits")
        await asyncio.sleep(2 * leader.DRIFT_SECONDS)
        later = rig.extender.metrics.registry.get_sample_value("cotenant_extender_ledger_recounts_total")
        assert recounts is not None
        assert later is not None
        assert later > recounts
        server.remove(pods.PODS, "a", "team")
        await until(lambda: names.EARMARK in server.pod("b")["metadata"]["annotations"], "promised")


@virtual.time
async def test_a_setback_is_over_in_its_time_although_the_clock_was_set_back() -> None:
    ahead = 0.0
    server = running.server()
    async with running.extender(server, wall=lambda: running.clock() + ahead) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: names.EARMARK in server.pod("a")["metadata"]["annotations"], "promised")
        refused = copy.deepcopy(server.pod("a"))
        report = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        refused["status"]["conditions"] = [report]
        server.put(pods.PODS, refused)
        first = earmark_of(server)
        ahead = -3600.0
        began = running.clock()
        await until(lambda: earmark_of(server) != first, "earmarked again")
        assert running.clock() - began < 30


@virtual.time
async def test_a_lease_that_nobody_renews_is_not_believed_for_longer_because_the_clock_was_set_back() -> None:
    ahead = 0.0
    server = running.server()
    async with running.extender(server, wall=lambda: running.clock() + ahead) as rig:
        await rig.serving()
        rig.holder = ""
        ahead = -3600.0
        await asyncio.sleep(running.LEASE_SECONDS + 3)
        assert not rig.extender.serving()


@pytest.mark.parametrize("seconds", [0.2, 10.0, 3600.0])
def test_a_renewal_counts_no_longer_because_the_clock_was_set_back(seconds: float) -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host_12ab"))
    leading.clock_was_set(by=-seconds)
    leading.observe(lease("host_12ab"))
    assert leading.remaining_seconds(now=NOW + 9 - seconds) == pytest.approx(6)
    assert not leading.leads(now=NOW + 15.001 - seconds)
    leading.observe(lease("host_12ab", renewed=NOW + 16 - seconds))
    assert leading.leads(now=NOW + 30 - seconds)


def test_a_renewal_in_the_future_was_written_before_the_clock_was_set_back() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host_12ab", renewed=NOW + 3600))
    assert not leading.leads(now=NOW)
    assert leading.leads(now=NOW + 3599)


@virtual.time
async def test_how_long_a_gang_was_bound_in_part_under_another_leader_counts_for_nobody() -> None:
    server = running.server()
    whole = {"annotations": builders.gang("g", 2)}
    server.put(pods.PODS, builders.bound("a", 40, "n0", "GPU-n0-0", **whole))
    server.put(pods.PODS, builders.pod("b", 40, gates=(), **whole))
    async with running.extender(server) as rig:
        # Nobody binds the second pod.
        vars(rig.extender.leader)["_work"] = lambda: 0.0
        await rig.serving()
        await asyncio.sleep(cleanup.GRACE_SECONDS - 20)
        rig.holder = "other_1"
        await until(lambda: not rig.extender.serving(), "stepped down")
        await asyncio.sleep(60)
        rig.holder = running.HOLDER
        await rig.serving()
        await asyncio.sleep(cleanup.GRACE_SECONDS - 10)
        assert server.sent("POST", "/eviction") == 0
        await until(lambda: server.sent("POST", "/eviction") > 0, "evicted")


def reason(server: Server, name: str) -> str:
    conditions = server.pod(name)["status"].get("conditions") or []
    return next((str(one["reason"]) for one in conditions if one["type"] == names.PACKED), "")


def lifted_to(name: str, gpu: str, share: int = 60) -> Object:
    """A pod that a former leader has lifted, with its promise."""
    note = orjson.dumps({"v": 1, "node": "n0", "gpus": [gpu], "attempt": 1, "leader": "other_1@0.0"}).decode()
    return builders.pod(name, share, gates=(), annotations={names.EARMARK: note})


@virtual.time
async def test_a_late_binding_to_other_gpus_than_were_promised_first_books_nothing_twice() -> None:
    server = running.server(nodes=2, gpus=1)
    server.put(pods.PODS, builders.pod("stuck", 90))
    async with running.extender(server) as former:
        await former.serving()
        await until(lambda: names.EARMARK in server.pod("stuck")["metadata"]["annotations"], "promised")
        other = "n1" if json.loads(earmark_of(server, "stuck"))["node"] == "n0" else "n0"

        def fault(request: transport.Request) -> Fault | None:
            if request.path.endswith("/binding"):
                return Fault.LATE
            return Fault.FAILED if patches(request, "stuck") and server.sent("POST", "/binding") else None

        server.fault = fault
        assert "not known" in await former.bound("stuck", other)
    running.renew(server, "host_2", now=running.clock())
    async with running.extender(server, holder="host_2") as rig:
        await rig.serving()
        reserved = rig.extender.ledger.reserved[PodUID("uid-stuck")]
        assert [gpu.uuid for gpu in reserved.gpus] == [f"GPU-{other}-0"]
        server.put(pods.PODS, builders.pod("q", 90))
        await until(lambda: names.EARMARK in server.pod("q")["metadata"]["annotations"], "promised")
        assert json.loads(earmark_of(server, "q"))["node"] != other


@pytest.mark.parametrize("gpus", [0, 1])
@virtual.time
async def test_what_was_promised_to_a_pod_that_cannot_be_marked_is_kept_whole_while_a_gpu_is_not_known(
    gpus: int,
) -> None:
    server = running.server(gpus=gpus)
    server.put(pods.PODS, lifted_to("stuck", "GPU-n0-1"))
    server.put(pods.PODS, builders.pod("next", 60))
    server.fault = lambda request: Fault.REFUSED if patches(request, "stuck") else None
    async with running.extender(server) as rig:
        await rig.serving()
        assert [gpu.share for gpu in rig.extender.ledger.reserved[PodUID("uid-stuck")].gpus] == [100]
        server.put(pods.NODES, builders.node("n0", gpus=2))
        server.put(pods.GPUNODES, builders.gpunode("n0", gpus=2))
        await until(lambda: names.EARMARK in server.pod("next")["metadata"]["annotations"], "promised")
        assert "GPU-n0-0" in earmark_of(server, "next")


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.FAILED])
@virtual.time
async def test_what_was_promised_to_a_pod_that_cannot_be_marked_is_kept_for_it(fault: Fault) -> None:
    server = running.server(gpus=2)
    server.put(pods.PODS, lifted_to("stuck", "GPU-n0-0"))
    for pod in (builders.pod("other", 60, gates=()), builders.pod("third", 60)):
        server.put(pods.PODS, pod)
    late = sends(server, "stuck")
    server.fault = lambda request: fault if patches(request, "stuck") else None
    async with running.extender(server) as rig:
        await rig.serving()
        assert running.clock() - NOW < 10
        await asyncio.sleep(earmarks.UNTRIED_SECONDS - 60)
        assert "GPU-n0-1" in earmark_of(server, "other")
        assert kinds(rig, "third") == []
        assert "not known" in await rig.bound("stuck", "n0")
        assert server.sent("PATCH", "/pods/stuck") < 2000
        assert (await server.request(late)).status == 201
        await until(lambda: kinds(rig, "stuck") == [claims.Kind.BOUND], "the former leader's Binding counts")


@virtual.time
async def test_a_pod_that_cannot_be_marked_for_a_while_is_placed_after_that() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, lifted_to("stuck", "GPU-n0-0"))
    late = sends(server, "stuck")
    server.fault = lambda request: Fault.FAILED if patches(request, "stuck") else None
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(60)
        server.fault = lambda _: None
        await until(lambda: kinds(rig, "stuck") == [claims.Kind.EARMARK], "promised by this leader")
        await until(lambda: "host_1234" in earmark_of(server, "stuck"), "marked")
        assert (await server.request(late)).status == 409
        assert await rig.bound("stuck", "n0") == ""


@virtual.time
async def test_a_pod_that_its_author_writes_all_the_time_keeps_no_leader_from_serving() -> None:
    server = running.server(gpus=2)
    server.put(pods.PODS, lifted_to("busy", "GPU-n0-0"))
    server.put(pods.PODS, builders.pod("other", 60))

    def writes(request: transport.Request) -> None:
        if patches(request, "busy"):
            raw = server.pod("busy")
            raw["metadata"]["labels"] = {"count": str(server.sent("PATCH", "/pods/busy"))}
            server.put(pods.PODS, raw)

    server.fault = writes
    async with running.extender(server) as rig:
        await rig.serving()
        assert running.clock() - NOW < 10
        await until(lambda: "schedulingGates" not in server.pod("other")["spec"], "others are lifted")
        assert kinds(rig, "busy") == [claims.Kind.RESERVED]


def patches(request: transport.Request, name: str) -> bool:
    return request.method == "PATCH" and request.path.endswith(f"/pods/{name}")


def kinds(rig: running.Rig, name: str) -> list[claims.Kind]:
    return [claim.kind for uid, claim in rig.extender.ledger.claims.items() if uid == f"uid-{name}"]
