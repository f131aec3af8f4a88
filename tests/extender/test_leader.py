"""Who serves, from when, and with what it takes over."""

import asyncio
import copy
import json
from typing import Any

import orjson

from api_server.faults import Fault
from api_server.server import Server
from cotenant_api import names, placement
from cotenant_api.names import PodUID
from cotenant_extender import leadership, records
from cotenant_extender.kube import pods, transport
from cotenant_extender.ledger import claims
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
        assert b"cotenant_extender_queue_pods 1.0" in rig.extender.metrics.text()


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
async def test_an_extender_that_steps_down_tells_of_no_overbooked_gpu() -> None:
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


@virtual.time
async def test_what_a_later_leader_has_marked_is_not_bound() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: "schedulingGates" not in server.pod("a")["spec"], "lifted")
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
        await until(lambda: "schedulingGates" not in server.pod("a")["spec"], "lifted")


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


def earmark_of(server: Server) -> str:
    text = str(server.pod("a")["metadata"]["annotations"][names.EARMARK])
    return text if text != "{" else "{}"


@virtual.time
async def test_with_assume_leader_it_serves_without_a_lease() -> None:
    server = running.server(holder="other_1")
    async with running.extender(server, holder="other_1", assume_leader=True) as rig:
        await rig.serving()
