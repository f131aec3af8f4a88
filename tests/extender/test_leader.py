"""Who serves, from when, and with what it takes over."""

import asyncio
import json
from typing import Any

from api_server.server import Server
from cotenant_api import names
from cotenant_extender import leadership, records
from cotenant_extender.kube import pods
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


def test_a_former_leader_may_take_itself_for_the_leader_until_its_lease_would_have_expired() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("other_1", renewed=NOW))
    leading.observe(lease("", renewed=NOW + 1))
    leading.observe(lease("host_1", renewed=NOW + 2))
    assert leading.others_until == NOW + 2 + 15


def test_a_former_leader_may_have_renewed_unseen_until_its_lease_was_taken() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("other_1", renewed=NOW))
    leading.observe(lease("host_1", renewed=NOW + 9))
    leading.observe(lease("host_1", renewed=NOW + 11, acquireTime=builders.timestamp(NOW + 9)))
    assert leading.others_until == NOW + 9 + 15


def test_a_former_leader_whose_lease_has_expired_keeps_nobody_waiting() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("other_1", renewed=NOW))
    leading.observe(lease("host_1", renewed=NOW + 16))
    assert leading.others_until == NOW + 15


def test_of_a_former_leader_that_was_never_seen_it_is_known_when_it_renewed_last_at_the_latest() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("host_1", renewed=NOW))
    assert leading.others_until == NOW + 15


def test_between_two_lists_another_may_have_led_unseen() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(None, listed=True)
    leading.observe(lease("host_1", renewed=NOW))
    leading.observe(lease("host_1", renewed=NOW + 20, acquireTime=builders.timestamp(NOW)), listed=True)
    assert leading.others_until == 0
    leading.observe(lease("host_2", renewed=NOW + 40), listed=True)
    assert leading.others_until == NOW + 40 + 15


def test_a_lease_that_was_given_back_before_the_first_list_had_a_holder() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(lease("", renewed=NOW), listed=True)
    leading.observe(lease("host_1", renewed=NOW + 1))
    assert leading.others_until == NOW + 1 + 15


def test_where_there_was_no_lease_there_is_no_former_leader() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(None)
    leading.observe(lease("host_1", renewed=NOW))
    assert leading.others_until == 0


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


@virtual.time
async def test_after_a_restart_it_waits_until_no_binding_can_be_in_flight_and_lists_again() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a", gates=()))
    async with running.extender(server) as rig:
        await asyncio.sleep(leadership.SETTLE_SECONDS - 0.1)
        assert not rig.extender.serving()
        # A Binding of the process before this one arrives late, and its watch event is lost.
        late = builders.bound("a", 90, "n0", "GPU-n0-0")
        server.slip(pods.PODS, late)
        await rig.serving()
        assert [claim.kind for claim in rig.extender.ledger.claims.values()] == [claims.Kind.BOUND]


@virtual.time
async def test_a_new_leader_waits_from_when_its_scheduler_took_the_lease() -> None:
    server = running.server(holder="other_1")
    server.put(pods.PODS, builders.pod("a", gates=()))
    async with running.extender(server, holder="other_1") as rig:
        await asyncio.sleep(60)
        rig.holder = running.HOLDER
        await rig.serving()
        taken = 60 + 2
        assert running.clock() - NOW >= taken + leadership.SETTLE_SECONDS - 2


@virtual.time
async def test_a_new_leader_waits_for_bindings_of_pods_whose_lift_it_has_not_seen() -> None:
    server = running.server(holder="other_1")
    server.put(pods.PODS, builders.pod("a"))
    async with running.extender(server, holder="other_1") as rig:
        await asyncio.sleep(1)
        server.slip(pods.PODS, builders.pod("a", gates=()))
        rig.holder = running.HOLDER
        await rig.serving()
        assert running.clock() - NOW >= running.LEASE_SECONDS


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
        assert server.sent("PATCH", "/pods/a") == 0


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
