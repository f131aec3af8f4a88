"""A ledger that is lost comes back by evidence alone."""

import dataclasses

import pytest

from cotenant_deviceplugin.binding import disk
from cotenant_deviceplugin.binding.ledger import Ledger
from node_kit.binding_bench import Bench
from node_kit.bookings import A, booked


@pytest.fixture(name="bench")
async def begun() -> Bench:
    bench = Bench()
    await bench.begin()
    return bench


async def test_a_lost_ledger_comes_back_from_kubelet_and_the_api_server(bench: Bench) -> None:
    await bench.run(bench.job("u1", (A, 60)))
    before = bench.stored().grants
    bench.world.stored = disk.to_text(Ledger())
    await bench.die()
    assert bench.stored().grants == before


async def test_while_a_lost_ledger_cannot_be_recovered_nobody_new_starts(bench: Bench) -> None:
    running = await bench.run(bench.job("u1", (A, 60)))
    bench.world.stored = disk.to_text(Ledger())
    running.gone = True
    await bench.die()
    late = await bench.run(bench.job("u2", (A, 60)))
    assert "what pod u1 has is lost, and kubelet still lists it" in late.pod.failure


async def test_recovered_pods_that_cannot_run_get_nothing_by_it(bench: Bench) -> None:
    waiting, wrong = bench.job("u1", (A, 60)), bench.job("u2", (A, 60), pod_uid="another")
    for job in (waiting, wrong):
        await bench.admit(job)
    bench.world.stored = disk.to_text(Ledger())
    await bench.die()
    assert bench.stored().grants == ()
    assert len(bench.stored().allocations) == 2


async def test_two_answers_for_one_pod_in_the_checkpoint_recover_nothing(bench: Bench) -> None:
    job = await bench.run(bench.job("u1"))
    bench.world.stored = disk.to_text(Ledger())
    kubelet = bench.node.kubelet
    held = kubelet.devices.held["u1", "main"]
    kubelet.devices.held["u1", "main"] = dataclasses.replace(held, response=held.response + _another_name())
    kubelet.write_checkpoint()
    await bench.die()
    assert bench.stored() == Ledger()
    assert job.limits == ((A, 30),)


def _another_name() -> bytes:
    return b"\x2a\x1b\x0a\x19cotenant.dev/share=second"


async def test_a_lost_allocation_of_a_pod_that_has_ended_is_forgotten(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 60)))
    bench.world.stored = disk.to_text(Ledger())
    job.limits, job.alive, job.finished = None, False, True
    bench.node.kubelet.ended(job.pod)
    await bench.die()
    assert bench.stored() == Ledger()


async def test_a_lost_grant_whose_placement_is_no_good_now_was_never_given(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 60)))
    bench.world.stored = disk.to_text(Ledger())
    job.placements.append(booked("another"))
    await bench.die()
    assert [each.grant for each in bench.stored().allocations] == [None]
