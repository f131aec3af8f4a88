"""Seeded schedules of late binding against a kubelet: whatever comes in whatever order, no container is wrong.

One seed is one schedule, always the same: pods of equal requests started together, kubelet and agent ended at any
point, reboots, lost ledgers and checkpoints, late, lost and doubled calls, an API server that is down, edited
placements, pods that vanish with their processes still there. After it the faults stop, and every pod with a valid
placement must start; when all have ended, nothing is left.

    PYTHONPATH=tests python -m node_kit.schedules --seeds 10000     # all cores: --jobs N
    PYTHONPATH=tests python -m node_kit.schedules --seed 4711       # one, with what happened
"""

import argparse
import asyncio
import multiprocessing
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from cotenant_api import placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import disk
from cotenant_deviceplugin.binding.grants import Numbers, ServedGPU
from cotenant_deviceplugin.binding.late_binding import LateBinding
from cotenant_deviceplugin.binding.ledger import Ledger
from node_kit.kubelet import NO_FAULTS, Faults
from node_kit.kubelet_devices import Container, Pod
from node_kit.schedules_node import Build, Node
from node_kit.schedules_world import (
    NODE,
    Job,
    ViolationError,
    World,
)

STEPS = 50
VIOLATED = "VIOLATED"
LAST_ROUNDS = 300
MENDED, LATE, OLD, HIDDEN = 0.2, 0.1, 0.5, 0.5
"""How often a fault ends before the next step; a pod is bound that the node cannot hold; kubelet is an old one; a
container runs and does not open its GPU."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What kind of schedule a seed makes: some faults exclude one another, because both together cannot be told from
    what is right (a placement that was edited after the ledger was lost).
    """

    gpus: int
    requests: tuple[int, ...]
    edits: bool
    ledger_lost: bool
    checkpoint_lost: bool


KINDS = (
    Kind(gpus=2, requests=(2, 2, 2, 3), edits=True, ledger_lost=False, checkpoint_lost=False),
    Kind(gpus=1, requests=(50, 50, 100), edits=True, ledger_lost=False, checkpoint_lost=False),
    Kind(gpus=1, requests=(40, 50, 50), edits=False, ledger_lost=True, checkpoint_lost=False),
    Kind(gpus=2, requests=(2, 60, 100), edits=False, ledger_lost=False, checkpoint_lost=True),
    Kind(gpus=2, requests=(100, 200), edits=False, ledger_lost=False, checkpoint_lost=False),
)


class Schedule:
    """One schedule: what may happen to a node, and whether all ends well."""

    def __init__(self, seed: int, build: Build = LateBinding) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.kind = KINDS[seed % len(KINDS)]
        gpus = {GPUUID(f"GPU-{index}"): ServedGPU(numbers=Numbers(index, index)) for index in range(self.kind.gpus)}
        self.world = World(self.rng, gpus)
        self.node = Node(self.rng, self.world, build)
        self.kubelet, self.log = self.node.kubelet, self.node.log

    async def run(self) -> None:
        """Raises ViolationError."""
        try:
            self.node.revive()
            for _ in range(STEPS):
                self._mend()
                self._act()
                await self.node.turn(self.rng.choice((0, 1, 3, 10, 30)))
            await self._calm()
        finally:
            await self.node.close()

    # What may happen

    def _mend(self) -> None:
        """Most faults do not last."""
        if self.rng.random() < MENDED:
            self.world.api_down = False
        if self.rng.random() < MENDED:
            self.world.disk_fails = False
        if self.rng.random() < MENDED:
            self._register_or_revive()

    def _act(self) -> None:
        actions: dict[Callable[[], None], int] = {
            self._bind: 8,
            self._finish: 5,
            self._crash: 3,
            self._vanish: 3,
            self._kubelet_forgets: 4,
            self._zombie_ends: 3,
            self._report: 5,
            self.node.collect: 5,
            self._kill_soon: 4,
            self._register_or_revive: 10,
            self._restart_kubelet: 2,
            self._reboot: 1,
            self.node.lose_stream: 1,
            self._toggle_api: 2,
            self._toggle_disk: 1,
            self._toggle_gpu: 2,
            self._toggle_calls: 2,
            self._edit: 2,
        }
        chosen = self.rng.choices(list(actions), weights=list(actions.values()))[0]
        self.log.append(chosen.__name__.strip("_"))
        chosen()

    def _bind(self) -> None:
        """One pod, or several of equal requests at once."""
        request = self.rng.choice(self.kind.requests)
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            held = sum(job.pod.containers[0].request for job in self.world.jobs if job.pod.active)
            offered = len(self.kubelet.devices.healthy)
            # The scheduler knows what the node offers, and is sometimes late.
            if held + request <= offered or self.rng.random() < LATE:
                self._bind_one(request)

    def _bind_one(self, request: int) -> None:
        names = [job.pod.name for job in self.world.jobs if job.gone]
        again = bool(names) and self.rng.random() < 0.5
        number = len(self.world.jobs)
        pod = Pod(
            uid=f"uid-{number}",
            name=self.rng.choice(names) if again else f"p{number}",
            containers=(Container(request=request),),
        )
        if any(job.pod.name == pod.name and not job.gone for job in self.world.jobs):
            return
        valid = self.rng.random() < 0.85
        booked = self._placement(pod.uid if valid else "another", request)
        # With the ledger lost too, a process that has yet to open its GPU would be all that knows what it has.
        hidden = not self.kind.ledger_lost and self.rng.random() < HIDDEN
        self.world.jobs.append(Job(pod=pod, valid=valid, placements=[booked], hidden=hidden))
        self.log.append(f"  {pod.name} ({pod.uid}) asks for {request}, {booked.gpus}")
        self.node.start(self.world.jobs[-1])

    def _placement(self, uid: str, request: int) -> placement.Placement:
        share = 100 if request >= 100 else max(request, self.rng.choice((10, 30, 50, 60, 100)))
        uuids = self.rng.sample(sorted(self.world.gpus), max(1, request // 100))
        booked = [{"uuid": uuid, "share": share, "activeThreadPercentage": share, "memoryMiB": 1} for uuid in uuids]
        value = {"podUID": uid, "node": NODE, "container": "main", "policyGeneration": 1, "gpus": booked}
        backend = "Whole" if share == 100 else "MPS"
        return placement.Placement.from_object(value | {"backend": backend}, source="schedule")

    def _finish(self) -> None:
        self._of([job for job in self.world.jobs if job.limits is not None and job.pod.active], self._end)

    def _end(self, job: Job) -> None:
        self.node.stop(job)
        job.limits, job.alive = None, False
        self.kubelet.ended(job.pod)

    def _report(self) -> None:
        """The status of a pod that has ended reaches the API server."""
        self._of([job for job in self.world.jobs if not job.pod.active and not job.alive], _finished)

    def _crash(self) -> None:
        def crash(job: Job) -> None:
            job.limits = None
            job.pod.running.clear()
            self.node.start(job)

        self._of([job for job in self.world.jobs if job.limits is not None and job.pod.active], crash)

    def _vanish(self) -> None:
        """Deleted by force: gone at the API server, and kubelet has yet to hear of it."""
        self._of([job for job in self.world.jobs if not job.gone], _gone)

    def _kubelet_forgets(self) -> None:
        """It hears of it, frees the tokens, and has yet to kill the processes."""
        self._of([job for job in self.world.jobs if job.gone], lambda job: self.kubelet.force_deleted(job.pod))

    def _zombie_ends(self) -> None:
        """What kubelet has given up is cleaned up."""
        self._of([job for job in self.world.jobs if job.alive and not job.pod.active], self._end)

    def _kill_soon(self) -> None:
        if self.node.life is not None:
            self.node.life.steps_left = self.rng.randrange(1, 25)

    def _register_or_revive(self) -> None:
        """A new agent, or the one that has noticed that kubelet does not know it; and kubelet readmits."""
        if self.node.life is None:
            if self.kind.ledger_lost and self.rng.random() < 0.3:
                self.log.append("  the ledger is lost")
                self.world.stored = disk.to_text(Ledger())
            self.node.revive()
        elif self.kubelet.devices.stopped:
            self.node.register()

    def _restart_kubelet(self) -> None:
        lost = self.kind.checkpoint_lost and self.rng.random() < 0.5
        self.node.stop(*self.world.jobs)
        self.kubelet.restart(checkpoint_lost=lost)
        # Older ones admit again without a look at the devices; so PreStart is skipped until the plugin has registered.
        old = self.rng.random() < OLD
        self.node.admitted = {
            job.uid for job in self.world.jobs if job.limits is not None or (old and not lost and job.pod.admitted)
        }
        for job in self.world.jobs:
            self.node.start(job)

    def _reboot(self) -> None:
        self.node.stop(*self.world.jobs)
        self.node.bury()
        for job in self.world.jobs:
            job.limits, job.alive = None, False
        self.world.names.clear()
        self.kubelet.reboot()
        self.node.admitted.clear()
        for job in self.world.jobs:
            self.node.start(job)

    def _toggle_api(self) -> None:
        self.world.api_down = not self.world.api_down

    def _toggle_disk(self) -> None:
        self.world.disk_fails = not self.world.disk_fails

    def _toggle_gpu(self) -> None:
        uuid = self.rng.choice(sorted(self.world.gpus))
        gpu = self.world.gpus[uuid]
        self.world.gpus[uuid] = ServedGPU(numbers=gpu.numbers, closed=None if gpu.closed else "Unhealthy")
        self.node.serve()

    def _toggle_calls(self) -> None:
        worse = Faults(lost_request=0.1, lost_reply=0.15, duplicate=0.15, late_seconds=1.0)
        self.kubelet.faults = worse if self.kubelet.faults is NO_FAULTS else NO_FAULTS

    def _edit(self) -> None:
        """Admission forbids it; it must change nothing for who has started."""

        def edit(job: Job) -> None:
            uid = job.placements[-1].pod_uid
            job.placements.append(self._placement(uid, job.pod.containers[0].request))

        if self.kind.edits:
            self._of(self.world.jobs, edit)

    # The end

    async def _calm(self) -> None:
        """No more faults: all that can start starts, ends, and leaves nothing behind."""
        self.log.append("calm")
        self.kubelet.faults = NO_FAULTS
        self.world.api_down = self.world.disk_fails = False
        self.world.gpus = {uuid: ServedGPU(numbers=gpu.numbers) for uuid, gpu in self.world.gpus.items()}
        if self.node.life is not None:
            self.node.life.steps_left = None
        self.node.serve()
        for _ in range(LAST_ROUNDS):
            self._register_or_revive()
            for job in self.world.jobs:
                self.node.start(job)
            self._finish()
            self._give_up()
            self._kubelet_forgets()
            self._zombie_ends()
            self._report()
            self.node.collect()
            await self.node.turn(20)
            if not self._waiting():
                break
        else:
            raise ViolationError(f"never started: {[(job.pod.name, job.pod.failure) for job in self._waiting()]}")
        await self._empty()

    def _give_up(self) -> None:
        """The admin deletes a pod whose tokens kubelet has lost with its checkpoint: it cannot start it again."""
        for job in self.world.jobs:
            if job.pod.active and job.first is not None and (job.uid, "main") not in self.kubelet.devices.held:
                self._end(job)

    def _waiting(self) -> list[Job]:
        return [job for job in self.world.jobs if job.valid and job.pod.active and job.first is None and not job.gone]

    async def _empty(self) -> None:
        """When all have ended, nobody has anything and nothing resolves."""
        for job in self.world.jobs:
            self._end(job)
            job.finished = True
        self.kubelet.collect()
        self.kubelet.write_checkpoint()
        while self.node.binding is None:
            self._register_or_revive()
            await self.node.turn(5)
        # A recovery that was under way when they ended may grant what only a later look for ends finds.
        await self.node.turn(60)
        await self.node.binding.collect()
        if self.node.binding.grants() or self.world.names:
            raise ViolationError(f"left behind: {self.node.binding.grants()}, {self.world.names}")

    def _of(self, jobs: list[Job], action: Callable[[Job], None]) -> None:
        if jobs:
            job = self.rng.choice(jobs)
            self.log.append(f"  {job.pod.name} ({job.uid})")
            action(job)


def _finished(job: Job) -> None:
    job.finished = True


def _gone(job: Job) -> None:
    job.gone = True


def violation_of(seed: int, build: Build = LateBinding) -> ViolationError | None:
    """What is wrong with the schedule of a seed; None: nothing."""
    try:
        asyncio.run(Schedule(seed, build).run())
    except ViolationError as error:
        return error
    return None


def story(seed: int) -> list[str]:
    """What happens in the schedule of a seed; the last line says so where it is violated."""
    schedule = Schedule(seed)
    try:
        asyncio.run(schedule.run())
    except ViolationError as error:
        schedule.log.append(f"{VIOLATED}: {error}")
    return schedule.log


def _many(seeds: int, jobs: int) -> int:
    began = time.monotonic()
    with multiprocessing.Pool(jobs) as pool:
        found = pool.map(violation_of, range(seeds), chunksize=50)
    failed = [(seed, error) for seed, error in enumerate(found) if error is not None]
    for seed, error in failed[:20]:
        sys.stdout.write(f"seed {seed}: {error}\n")
    seconds = time.monotonic() - began
    sys.stdout.write(f"{seeds} schedules of {len(KINDS)} kinds, {len(failed)} violated, {seconds:.1f} s\n")
    return int(bool(failed))


def main() -> int:
    """Run one seed, or many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.seed is None:
        return _many(arguments.seeds, arguments.jobs)
    lines = story(arguments.seed)
    sys.stdout.write("\n".join(lines) + "\n")
    return int(lines[-1].startswith(VIOLATED))


if __name__ == "__main__":
    sys.exit(main())
