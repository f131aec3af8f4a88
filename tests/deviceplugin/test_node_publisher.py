"""Tenants are listed before they may start, and refusals are kept until their pods are gone."""

import asyncio
from typing import Any

import pytest

from cotenant_api import errors, gpunode, placement
from cotenant_api.names import GPUModel, Namespace, PodUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.node import publisher
from cotenant_deviceplugin.publishing import status
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes

DEVICES = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=2)
UID = PodUID("uid-train")


def grant(**changes: Any) -> Grant:
    spec = fakes.PodSpec(**changes)
    booked = placement.Placement.from_object(fakes.placement(spec), source="test")
    return Grant(pod_uid=PodUID(spec.uid), namespace=Namespace("team"), pod=spec.name, container="main", booked=booked)


class Agent:
    """Publishes what it views, as the real one does: first it looks, then it writes."""

    def __init__(self, of: publisher.Publisher, *standing: Grant) -> None:
        self.of, self.standing = of, list(standing)
        self.wakes = 0
        of.changed = self._wake

    def _wake(self) -> None:
        self.wakes += 1

    def look(self) -> gpunode.Status:
        """What it would write."""
        seen = status.View(granted=self.of.granted(self.standing))
        driver = hardware.Driver(driver_version="1", cuda_version="13.0")
        machine = status.Machine(simulated=False, driver=driver, devices=DEVICES)
        observed = status.Observed(node=fakes.NODE, agent_version="1", machine=machine, pods=(), view=seen)
        return status.of(observed, previous=None, now=fakes.START)

    def publish(self) -> gpunode.Status:
        """Look, and write."""
        looked = self.look()
        self.of.heard(looked)
        return looked


def made(patience_seconds: float = 10.0) -> tuple[publisher.Publisher, fakes.FakeClock]:
    clock = fakes.FakeClock()
    return publisher.Publisher(clock, patience_seconds=patience_seconds), clock


def tenants(of: gpunode.Status) -> list[list[str]]:
    return [[tenant.pod_uid for tenant in gpu.tenants] for gpu in of.gpus]


async def test_it_returns_once_a_status_with_the_tenant_stands() -> None:
    of, _ = made()
    agent = Agent(of)
    listing = asyncio.create_task(of.list_tenant(grant()))
    await fakes.settled()
    assert (listing.done(), agent.wakes) == (False, 1)
    assert tenants(agent.publish()) == [[UID], []]
    await listing


async def test_a_status_that_was_looked_at_before_is_not_enough() -> None:
    of, _ = made()
    agent = Agent(of, grant())
    old = agent.look()
    agent.standing = []
    listing = asyncio.create_task(of.list_tenant(grant()))
    await fakes.settled()
    of.heard(old)
    await fakes.settled()
    assert not listing.done()
    agent.publish()
    await listing


async def test_a_pod_on_several_gpus_must_be_listed_on_each() -> None:
    of, _ = made()
    agent = Agent(of)
    listing = asyncio.create_task(of.list_tenant(grant(gpus=(0, 1), booked=100, share=200, backend="Whole")))
    await fakes.settled()
    looked = agent.look()
    of.heard(looked.model_copy(update={"gpus": looked.gpus[:1]}))
    await fakes.settled()
    assert not listing.done()
    assert tenants(agent.publish()) == [[UID], [UID]]
    await listing


async def test_an_api_server_that_is_away_is_a_temporary_matter() -> None:
    of, _ = made(patience_seconds=0.01)
    with pytest.raises(errors.TemporaryError, match="could not be written yet"):
        await of.list_tenant(grant())


async def test_a_tenant_stays_listed_between_its_listing_and_its_grant() -> None:
    of, clock = made()
    agent = Agent(of)
    listing = asyncio.create_task(of.list_tenant(grant()))
    await fakes.settled()
    agent.publish()
    await listing
    await clock.advance(publisher.FORGET_SECONDS - 1)
    assert tenants(agent.publish()) == [[UID], []]


async def test_a_tenant_that_was_granted_is_listed_for_as_long_as_its_grant_stands() -> None:
    of, _ = made()
    agent = Agent(of)
    listing = asyncio.create_task(of.list_tenant(grant()))
    await fakes.settled()
    agent.publish()
    await listing
    agent.standing = [grant()]
    assert tenants(agent.publish()) == [[UID], []]
    agent.standing = []
    assert tenants(agent.publish()) == [[], []]


async def test_a_tenant_that_was_never_granted_is_unlisted_when_kubelet_has_given_up() -> None:
    of, clock = made()
    agent = Agent(of)
    listing = asyncio.create_task(of.list_tenant(grant()))
    await fakes.settled()
    agent.publish()
    await listing
    await clock.advance(publisher.FORGET_SECONDS + 1)
    assert tenants(agent.publish()) == [[], []]


def test_a_refusal_is_told_once_and_kept_until_the_pod_is_gone() -> None:
    of, _ = made()
    agent = Agent(of)
    of.refuse(UID, "GPUNotServed")
    of.refuse(UID, "GPUNotServed")
    assert (agent.wakes, of.refused({UID})) == (1, {UID: "GPUNotServed"})
    assert of.refused(()) == {}
    assert of.refused({UID}) == {}


def test_a_new_reason_replaces_the_old_one() -> None:
    of, _ = made()
    of.refuse(UID, "one")
    of.refuse(UID, "two")
    assert of.refused({UID}) == {UID: "two"}


def test_refusals_are_bounded() -> None:
    of, _ = made()
    uids = [PodUID(str(number)) for number in range(publisher.MAX_REFUSED + 5)]
    for uid in uids:
        of.refuse(uid, "no")
    assert len(of.refused(uids)) == publisher.MAX_REFUSED
