"""A name resolves only as long as it gives the GPUs of its grant by the numbers that they have now."""

import dataclasses
from collections.abc import Mapping

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID, GPUModel
from cotenant_deviceplugin.binding import disk
from cotenant_deviceplugin.binding.grants import Numbers, ServedGPU
from cotenant_deviceplugin.binding.ledger import Ledger, Nonce
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps.backend import Edits
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes
from node_kit.binding_bench import OPEN, Bench
from node_kit.bookings import A, B
from node_kit.schedules_world import Job, Life

SWAPPED = {A: ServedGPU(numbers=Numbers(1, 1)), B: ServedGPU(numbers=Numbers(0, 0))}


@pytest.fixture(name="bench")
async def begun() -> Bench:
    bench = Bench()
    await bench.begin()
    return bench


async def renumber(bench: Bench, gpus: dict[GPUUID, ServedGPU]) -> None:
    """The driver tells of GPUs anew."""
    bench.world.gpus = gpus
    bench.node.serve()
    assert bench.node.binding is not None
    await bench.node.binding.revise()


def nonce_of(bench: Bench, job: Job) -> Nonce:
    allocation = bench.stored().of_pod(job.uid)
    assert allocation is not None
    return allocation.nonce


async def test_names_of_gpus_with_other_numbers_resolve_no_more_until_they_are_proven_again(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 30)))
    nonce = nonce_of(bench, job)
    await renumber(bench, SWAPPED)
    assert nonce not in bench.world.names
    await bench.crash(job)
    assert bench.world.minors[nonce] == {1}
    assert job.limits == ((A, 30),)


@pytest.mark.parametrize("numbers", [Numbers(0, None), None])
async def test_names_of_a_gpu_whose_number_nobody_knows_resolve_no_more(bench: Bench, numbers: Numbers | None) -> None:
    job, other = await bench.run(bench.job("u1", (A, 30))), await bench.run(bench.job("u2", (B, 30)))
    await renumber(bench, {B: OPEN[B]} | ({} if numbers is None else {A: ServedGPU(numbers=numbers)}))
    assert bench.world.names.keys() == {nonce_of(bench, other)}
    assert bench.world.withdrawn == {nonce_of(bench, job)}


async def test_a_next_life_takes_back_what_gives_another_gpu(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 30)))
    bench.node.bury()
    bench.world.gpus = SWAPPED
    await bench.begin()
    assert nonce_of(bench, job) not in bench.world.names


async def test_names_of_a_lost_ledger_resolve_no_more_and_still_tell_of_their_containers(bench: Bench) -> None:
    job = await bench.run(bench.job("u1", (A, 60)))
    before = bench.stored().grants
    bench.world.stored = disk.to_text(Ledger())
    job.limits = None  # it has crashed: that it ran is told by its name alone
    await bench.die()
    assert bench.stored().grants == before
    assert not bench.world.names
    assert (await bench.run(job)).limits == ((A, 60),)


async def test_a_start_during_which_numbers_change_fails() -> None:
    class Renumbered(Life):
        async def write(self, nonce: Nonce, gpus: Mapping[GPUUID, Numbers], edits: Edits) -> None:
            await super().write(nonce, gpus, edits)
            self.world.gpus = SWAPPED
            bench.node.serve()

    bench = Bench()
    bench.node.new_life = Renumbered
    await bench.begin()
    job = bench.job("u1", (A, 30))
    tokens = await bench.admit(job)
    with pytest.raises(errors.TemporaryError, match="numbers have changed meanwhile"):
        await bench.pre_start(tokens)
    assert bench.world.names == {}
    await bench.pre_start(tokens)
    assert bench.world.minors[nonce_of(bench, job)] == {1}


def test_a_device_that_is_lost_keeps_no_number_that_another_has_now() -> None:
    first, second, third = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=3)
    known = {each.uuid: each for each in (first, second, third)}
    moved = dataclasses.replace(second, minor=first.minor)
    assert hardware.updated(known, {second.uuid: moved}) == {
        first.uuid: dataclasses.replace(first, minor=None),
        second.uuid: moved,
        third.uuid: third,
    }
