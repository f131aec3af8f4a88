"""Random histories of one agent: each of its writes may be lost and arrive late, each reply and event may be late."""

import asyncio
import contextlib
import random
from datetime import datetime, timedelta

import pytest

from cotenant_api import errors, gpunode
from cotenant_deviceplugin.kube import cluster
from deviceplugin import fakes
from deviceplugin.simulated_agent import GPUNODE, LEASE, LEASES, LOST, NODE, PODS, STATUS, Started, tenants

WRITES = (
    ("POST", cluster.GPUNODES),
    ("APPLY", STATUS),
    ("POST", LEASES),
    ("APPLY", LEASE),
    ("PATCH", LEASE),
    ("PATCH", NODE),
)
ANSWERS = (*WRITES, ("GET", NODE), ("GET", GPUNODE))
WATCHED = (PODS, cluster.GPUNODES)
PODS_AT_MOST = 3
STEPS = 40
CALM_SECONDS = 60


class _World:
    """Does something at random to what is around an agent."""

    def __init__(self, api: fakes.FakeCluster, rng: random.Random) -> None:
        self.api = api
        self.answers: list[asyncio.Event] = []
        self._random = rng
        self._does = (
            self._lose,
            self._lose,
            self._arrive,
            self._arrive,
            self._hold,
            self._answer,
            self._fall_behind,
            self._catch_up,
            self._change_pod,
            self._change_pod,
            self._replace_node,
            self._delete_gpunode,
            self._delete_lease,
        )

    def step(self) -> None:
        """Do one thing."""
        self._random.choice(self._does)()

    def calm(self) -> None:
        """End what is wrong; what is late arrives."""
        self.api.faults.clear()
        self._answer()
        self._catch_up()
        while self.api.late:
            self._arrive()

    def _lose(self) -> None:
        method, path = self._random.choice(WRITES)
        outcome = self._random.choice(({"done": True}, {"late": True}, {"late": True}))
        self.api.faults.append(fakes.Fault(method, path, LOST, **outcome))

    def _arrive(self) -> None:
        if self.api.late:
            with contextlib.suppress(errors.CotenantError):
                self.api.arrive(self._random.randrange(len(self.api.late)))

    def _hold(self) -> None:
        self.answers.append(self.api.hold(*self._random.choice(ANSWERS)))

    def _answer(self) -> None:
        for each in self.answers:
            each.set()
        self.answers.clear()

    def _fall_behind(self) -> None:
        self.api.behind.add(self._random.choice(WATCHED))

    def _catch_up(self) -> None:
        for each in WATCHED:
            self.api.catch_up(each)

    def _change_pod(self) -> None:
        number = self._random.randrange(PODS_AT_MOST)
        path = f"{fakes.POD_PATH}/train-{number}"
        if path in self.api.objects:
            self.api.delete(path)
        else:
            self.api.put(
                path, fakes.pod(fakes.PodSpec(name=f"train-{number}", uid=f"uid-{path}-{len(self.api.requests)}"))
            )

    def _replace_node(self) -> None:
        self.api.replace_node(fakes.node(tainted=True))

    def _delete_gpunode(self) -> None:
        if GPUNODE in self.api.objects:
            self.api.delete(GPUNODE)

    def _delete_lease(self) -> None:
        if LEASE in self.api.objects:
            self.api.delete(LEASE)


@pytest.mark.parametrize("seed", range(50))
async def test_after_any_history_the_agent_tells_what_is_so(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311
    world = _World(api, rng)
    api.put(NODE, fakes.node(tainted=True))
    for _ in range(rng.randint(1, 3)):
        async with started():
            for _ in range(STEPS):
                world.step()
                await clock.advance(rng.choice((0, 0, 0, 0.3, 1, 4, 12)))
                api.collect()
    async with started():
        world.calm()
        for _ in range(CALM_SECONDS):
            api.collect()
            await clock.advance(1)
    living = sorted(path.rpartition("/")[2] for path in api.objects if path.startswith(fakes.POD_PATH))
    assert tenants(api) == living
    node = api.objects[NODE]
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["example.com/other"]
    for path in (GPUNODE, LEASE):
        assert [owner["uid"] for owner in api.objects[path]["metadata"]["ownerReferences"]] == [node["metadata"]["uid"]]
    renewed = datetime.fromisoformat(api.objects[LEASE]["spec"]["renewTime"])
    assert clock.now() - renewed <= timedelta(seconds=gpunode.LEASE_RENEW_SECONDS)
    assert api.unconditional == []


@pytest.mark.parametrize("seed", range(50))
async def test_a_late_write_changes_nothing_once_the_agent_has_written_after_it(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311
    world = _World(api, rng)
    api.put(NODE, fakes.node(tainted=True))
    async with started():
        for _ in range(STEPS):
            world.step()
            await clock.advance(rng.choice((0, 0, 0.3, 1, 4, 12)))
            api.collect()
        late, api.late = api.late, []
        world.calm()
        for _ in range(CALM_SECONDS):
            api.collect()
            await clock.advance(1)
        before = dict(api.objects)
        for each in late:
            with contextlib.suppress(errors.CotenantError):
                each()
        assert api.objects == before
