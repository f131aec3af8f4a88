"""Late binding, call by call: who gets what, what is on disk when, and what a crash or a fault leaves."""

import asyncio
import dataclasses
from collections.abc import Mapping

import pytest

from cotenant_api import errors
from cotenant_api.names import PodUID
from cotenant_deviceplugin.binding import disk
from cotenant_deviceplugin.binding.grants import Grant, Numbers, ServedGPU
from cotenant_deviceplugin.binding.ledger import Ledger, Nonce
from cotenant_deviceplugin.kubelet.plugin import Token
from cotenant_deviceplugin.mps.backend import Edits
from node_kit.binding_bench import OPEN, Bench
from node_kit.bookings import A, B, booked
from node_kit.schedules_world import Life


@pytest.fixture(name="bench")
async def begun() -> Bench:
    bench = Bench()
    await bench.begin()
    return bench


async def test_an_allocated_name_is_on_disk_and_resolves_to_nothing(bench: Bench) -> None:
    tokens = await bench.admit(bench.job("u1"))
    (allocation,) = bench.stored().allocations
    assert (allocation.tokens, allocation.grant) == (tokens, None)
    assert bench.world.names == {}


async def test_a_container_starts_with_what_its_placement_says(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 57)))
    assert job.limits == ((A, 57),)
    assert [grant.pod_uid for grant in bench.stored().grants] == ["u1"]


async def test_whole_gpus_come_together(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 100), (B, 100), request=200, backend="Whole"))
    assert job.limits == ((A, 100), (B, 100))


async def test_pods_of_equal_requests_started_together_never_swap(bench: Bench) -> None:
    jobs = [bench.job(f"u{number}", (A, 10 + number)) for number in range(5)]
    for job in jobs:
        bench.node.start(job)
    await bench.node.turn(400)
    assert [job.limits for job in jobs] == [((A, 10 + number),) for number in range(5)]


async def test_two_that_do_not_fit_together_are_not_started_together(bench: Bench) -> None:
    first, second = bench.job("u1", (A, 60)), bench.job("u2", (A, 60))
    bench.node.start(first)
    bench.node.start(second)
    await bench.node.turn(400)
    assert sorted([first.limits, second.limits], key=str) == [((A, 60),), None]


@pytest.mark.parametrize("changes", [{"pod_uid": "another"}, {"node": "n2"}, {"container": "side"}])
async def test_a_placement_for_another_is_refused_for_good(bench: Bench, changes: dict[str, str]) -> None:
    job = bench.job("u1")
    job.placements = [booked("u1").model_copy(update=changes)]
    job.valid = False
    await bench.run(job)
    assert job.limits is None
    assert bench.world.refused[job.uid].startswith("PlacementForAnother")


async def test_a_gate_that_refuses_for_good_is_published_with_a_reason() -> None:
    class Closed(Life):
        async def admit(self, _grant: Grant, *, new: bool) -> Edits:  # noqa: ARG002
            raise errors.PermanentError("in MIG mode")

    bench = Bench()
    bench.node.new_life = Closed
    await bench.begin()
    job = await bench.run(bench.job("u1"))
    assert bench.world.refused == {job.uid: "GPUNotServed: in MIG mode"}


@pytest.mark.parametrize("steps", range(1, 40))
async def test_an_agent_killed_anywhere_between_allocate_and_start_goes_on_from_there(steps: int) -> None:
    bench = Bench()
    await bench.begin()
    job = bench.job("u1", (A, 57))
    await bench.admit(job)
    assert bench.node.life is not None
    bench.node.life.steps_left = steps
    await bench.run(job)
    await bench.die()
    await bench.run(job)
    assert job.limits == ((A, 57),)
    assert len(bench.stored().grants) == 1


async def test_a_started_container_needs_no_api_server_to_start_again(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 57)))
    bench.world.api_down = True
    await bench.die()
    await bench.crash(job)
    assert job.limits == ((A, 57),)


async def test_a_reboot_changes_nothing_for_who_was_granted(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 57)))
    bench.world.api_down = True
    bench.world.names.clear()
    await bench.die()
    await bench.crash(job)
    assert job.limits == ((A, 57),)


async def test_an_edited_placement_changes_nothing_for_who_was_granted(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 57)))
    job.placements.append(booked("u1", (B, 90)))
    await bench.crash(job)
    assert job.limits == ((A, 57),)


async def test_while_the_api_server_is_down_nobody_new_starts(bench: Bench) -> None:
    job = bench.job("u1")
    tokens = await bench.admit(job)
    bench.world.api_down = True
    with pytest.raises(errors.TemporaryError, match="API server is down"):
        await bench.pre_start(tokens)
    bench.world.api_down = False
    await bench.run(job)
    assert job.limits == ((A, 30),)


async def test_a_placement_that_changes_while_it_is_proven_is_not_granted() -> None:
    class Editing(Life):
        async def list_tenant(self, grant: Grant) -> None:
            await super().list_tenant(grant)
            self.world.jobs[0].placements.append(booked("u1", (B, 90)))

    bench = Bench()
    bench.node.new_life = Editing
    await bench.begin()
    tokens = await bench.admit(bench.job("u1"))
    with pytest.raises(errors.TemporaryError, match="placement has changed"):
        await bench.pre_start(tokens)
    assert bench.world.names == {}


async def test_a_failing_disk_grants_nothing(bench: Bench) -> None:
    tokens = await bench.admit(bench.job("u1"))
    bench.world.disk_fails = True
    with pytest.raises(errors.TemporaryError, match="disk fails"):
        await bench.pre_start(tokens)
    assert bench.world.names == {}


async def test_a_node_that_may_not_share_starts_nobody(bench: Bench) -> None:
    job = await bench.run(bench.job("u1"))
    tokens = frozenset(map(Token, bench.node.kubelet.devices.held["u1", "main"].ids))
    assert bench.node.binding is not None
    bench.node.binding.serve(OPEN, suspended="NoCDI")
    with pytest.raises(errors.TemporaryError, match="NoCDI"):
        await bench.pre_start(tokens)
    assert job.limits == ((A, 30),)


async def test_a_closed_gpu_keeps_its_tenants_and_takes_no_new_one(bench: Bench) -> None:
    tenant = await bench.run(bench.job("u1"))
    assert bench.node.binding is not None
    bench.node.binding.serve(OPEN | {A: ServedGPU(numbers=Numbers(0, 0), closed="excluded")}, suspended=None)
    await bench.crash(tenant)
    assert tenant.limits == ((A, 30),)
    with pytest.raises(errors.TemporaryError, match="GPU GPU-a is closed: excluded"):
        await bench.pre_start(await bench.admit(bench.job("u2")))


async def test_a_tenants_room_returns_when_its_end_is_proven(bench: Bench) -> None:
    first, second = await bench.run(bench.job("u1", (A, 60))), bench.job("u2", (A, 60))
    first.limits, first.finished = None, True
    bench.node.kubelet.ended(first.pod)
    await bench.run(second)
    assert [grant.pod_uid for grant in bench.stored().grants] == ["u1"]
    first.alive = False
    await bench.run(second)
    assert second.limits == ((A, 60),)
    assert [grant.pod_uid for grant in bench.stored().grants] == ["u2"]


async def test_calls_for_the_same_tokens_wait_for_each_other(bench: Bench) -> None:
    tokens = await bench.admit(bench.job("u1"))
    await asyncio.gather(*(bench.pre_start(tokens) for _ in range(4)))
    assert len(bench.stored().grants) == 1


async def test_who_is_cancelled_leaves_no_reservation(bench: Bench) -> None:
    first, second = bench.job("u1", (A, 60)), bench.job("u2", (A, 60))
    tokens = await bench.admit(first)
    call = asyncio.create_task(bench.pre_start(tokens))
    while not (bench.node.binding and bench.node.binding.tenants(A)):
        await bench.node.turn(1)
    assert bench.node.binding.granted(A) == ()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert bench.node.binding.tenants(A) == ()
    await bench.run(second)
    assert second.limits == ((A, 60),)


async def test_a_pod_that_is_proven_already_is_not_proven_twice_at_once(bench: Bench) -> None:
    """Kubelet allocated again for a pod whose first call still goes on."""
    job = bench.job("u1")
    old = await bench.admit(job)
    call = asyncio.create_task(bench.pre_start(old))
    while not (bench.node.binding and bench.node.binding.tenants(A)):
        await bench.node.turn(1)
    del bench.node.kubelet.devices.held["u1", "main"]
    bench.node.kubelet.devices.restore()
    new = await bench.admit(job)
    results = await asyncio.gather(call, bench.pre_start(new), return_exceptions=True)
    assert len(bench.stored().grants) == 1
    await bench.pre_start(new)
    assert [allocation.tokens for allocation in bench.stored().granted] == [new]
    assert all(result is None or isinstance(result, errors.TemporaryError) for result in results)


async def test_no_tokens_are_no_allocation(bench: Bench) -> None:
    assert bench.node.binding is not None
    with pytest.raises(errors.PermanentError, match="no token"):
        await bench.node.binding.allocate(frozenset())


async def test_a_container_that_has_no_grant_of_its_pod_gets_none(bench: Bench) -> None:
    job = await bench.run(bench.job("u1"))
    value = bench.stored()
    (one,) = value.granted
    assert one.grant is not None
    other = dataclasses.replace(one, grant=dataclasses.replace(one.grant, container="side"))
    bench.world.stored = disk.to_text(Ledger((other,)))
    await bench.die()
    with pytest.raises(errors.TemporaryError, match="container 'side' has the grant, and 'main' the tokens"):
        await bench.pre_start(one.tokens)
    assert job.limits == ((A, 30),)


async def test_an_answer_that_was_given_for_other_tokens_proves_nothing(bench: Bench) -> None:
    tokens = await bench.admit(bench.job("u1"))
    (one,) = bench.stored().allocations
    bench.world.stored = disk.to_text(Ledger((dataclasses.replace(one, tokens=frozenset({Token("t0999")})),)))
    await bench.die()
    with pytest.raises(errors.TemporaryError, match="another answer for these tokens"):
        await bench.pre_start(tokens)


async def test_a_pod_that_ended_with_the_same_tokens_is_told_apart_by_its_uid(bench: Bench) -> None:
    first = bench.job("u1", (A, 100), (B, 100), request=200, backend="Whole")
    second = bench.job("u2", (A, 100), (B, 100), request=200, backend="Whole")
    await bench.run(first)
    old = bench.node.kubelet.devices.held["u1", "main"]
    first.limits, first.alive, first.finished = None, False, True
    bench.node.kubelet.ended(first.pod)
    tokens = await bench.admit(second)
    bench.node.kubelet.devices.held["u1", "main"] = old
    bench.node.kubelet.write_checkpoint()
    await bench.pre_start(tokens)
    await bench.run(second)
    assert second.limits == ((A, 100), (B, 100))
    second.gone = True
    with pytest.raises(errors.TemporaryError, match="the API server knows none"):
        await bench.pre_start(tokens)


async def test_offers_tell_what_stands_and_each_change(bench: Bench) -> None:
    assert bench.node.binding is not None
    offers = aiter(bench.node.binding.offers())
    healthy: list[int] = []

    def count(offer: Mapping[Token, bool]) -> int:
        return sum(offer.values())

    healthy.append(count(await anext(offers)))
    bench.node.binding.serve(OPEN | {B: ServedGPU(numbers=Numbers(1, 1), closed="Unhealthy")}, suspended=None)
    healthy.append(count(await anext(offers)))
    await bench.admit(bench.job("u1"))
    bench.node.binding.serve(OPEN, suspended="NoCDI")
    healthy.append(count(await anext(offers)))
    await offers.aclose()  # type: ignore[attr-defined]
    assert healthy == [200, 100, 2]


async def test_tokens_that_are_allocated_while_offers_are_followed_change_nothing_that_is_told(bench: Bench) -> None:
    assert bench.node.binding is not None
    offers = aiter(bench.node.binding.offers())
    first = await anext(offers)
    await bench.admit(bench.job("u1"))
    following = asyncio.ensure_future(anext(offers))
    await bench.node.turn(20)
    bench.node.binding.serve(OPEN, suspended="NoCDI")
    assert await following != first
    await offers.aclose()  # type: ignore[attr-defined]


async def test_tenants_are_told_per_gpu(bench: Bench) -> None:
    await bench.run(bench.job("u1", (A, 30)))
    assert bench.node.binding is not None
    assert [grant.pod_uid for grant in bench.node.binding.tenants(A)] == [PodUID("u1")]
    assert bench.node.binding.tenants(B) == ()


async def test_collecting_removes_the_names_of_nobody(bench: Bench) -> None:
    job = await bench.run(bench.job("u1"))
    await bench.admit(bench.job("u2"))
    stray, ungranted = Nonce("stray"), bench.stored().allocations[-1].nonce
    bench.world.names |= {stray: ((A, 100),), ungranted: ((A, 100),)}
    assert bench.node.binding is not None
    assert await bench.node.binding.collect() == ()
    assert not bench.world.names.keys() & {stray, ungranted}
    job.limits, job.alive, job.finished = None, False, True
    bench.node.kubelet.ended(job.pod)
    assert [grant.pod_uid for grant in await bench.node.binding.collect()] == ["u1"]
    bench.node.kubelet.collect()
    bench.node.kubelet.write_checkpoint()
    await bench.node.binding.collect()
    assert bench.world.names == {}
