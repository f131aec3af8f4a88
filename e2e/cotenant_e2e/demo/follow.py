"""Follows a run of the examples until every job is done or the time is up."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from cotenant_api import names, packingpolicy, pod
from cotenant_api.dljob import Phase
from cotenant_api.names import GPUUID
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from cotenant_e2e.demo import rows, screen, summary
from cotenant_e2e.demo.occupancy import Occupancy
from cotenant_e2e.demo.rows import Row
from cotenant_e2e.demo.screen import Screen
from cotenant_e2e.demo.summary import Summary
from cotenant_e2e.invariants import Limits
from cotenant_e2e.watching import Event, Follower

DLJOBS = clients.path_of("dljobs", group=names.GROUP, version=names.VERSION)
GPU_NODES = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name=packingpolicy.NAME)
PODS = clients.path_of("pods")


@dataclass(frozen=True)
class Moment:
    """What the table showed at some time."""

    rows: list[Row]
    headline: str

    @property
    def running(self) -> int:
        """How many jobs ran."""
        return sum(row.phase == Phase.RUNNING for row in self.rows)


@dataclass
class Run:
    """Everything that is known of a run, by its events."""

    occupancy: Occupancy
    gpu_names: dict[GPUUID, str]
    dljobs: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    reasons: dict[tuple[str, str], None] = field(default_factory=dict)
    fullest: Moment | None = None
    seconds: float = 0

    @classmethod
    def of(cls, client: Client) -> "Run":
        """Return a run on the GPUs that the cluster's GPUNodes tell of."""
        limits = Limits.of(client.get(POLICY), client.items(GPU_NODES))
        gpu_names = {uuid: f"{gpu.node}/{gpu.index}" for uuid, gpu in limits.gpus.items()}
        return cls(Occupancy(limits), gpu_names)

    def take(self, dljobs: Iterable[Event], pods: Iterable[Event], *, now: float) -> None:
        """Take in events; pods that ask for no share are none of ours."""
        for event in dljobs:
            _keep(self.dljobs, event)
        for event in pods:
            if pod.asks_for_share(event.object):
                self.occupancy.apply(event.type, event.object, now=now)
                _keep(self.pods, event)
                self._note_reason(event.object)

    def rows(self) -> list[Row]:
        """Return the table of now."""
        return rows.of_all(self.dljobs.values(), self.pods.values(), self.gpu_names)

    def moment(self, *, seconds: float) -> Moment:
        """Return the table of now, `seconds` after the run began; the fullest is kept."""
        rows_now = self.rows()
        in_use = self.occupancy.gpus_in_use()
        words = screen.headline(rows_now, seconds=seconds, gpus_in_use=in_use, gpus=len(self.gpu_names))
        moment = Moment(rows_now, words)
        if self.fullest is None or moment.running > self.fullest.running:
            self.fullest = moment
        self.seconds = seconds
        return moment

    def summary(self) -> Summary:
        """Return the figures so far."""
        counted = Counter(reason for _, reason in self.reasons)
        return summary.of_run(self.occupancy, self.rows(), counted, seconds=self.seconds, gpu_names=self.gpu_names)

    def _note_reason(self, waiting: Json) -> None:
        reason = rows.packed_reason(waiting).partition(":")[0]
        if reason:
            self.reasons[waiting["metadata"]["uid"], reason] = None


def follow(client: Client, shown: Screen, *, expected: int, seconds: float, apply: Callable[[], object]) -> Run:
    """Follow from before `apply` is called until all `expected` rows are done.

    Args:
        client: administrator's.
        shown: where to show it.
        expected: how many rows there will be.
        seconds: when to give up; what is not done then is in the summary.
        apply: submits the jobs.

    Returns:
        the run, as far as it came.
    """
    run = Run.of(client)
    with ExitStack() as stack:
        dljobs = stack.enter_context(Follower(client, DLJOBS))
        pods = stack.enter_context(Follower(client, PODS))
        began = time.monotonic()
        # In the background: what has been submitted is followed while the rest still comes.
        submitted = stack.enter_context(ThreadPoolExecutor(1)).submit(apply)
        stack.enter_context(shown)
        while True:
            run.take(dljobs.events(seconds=0.05), pods.events(seconds=0.2), now=time.monotonic() - began)
            passed = time.monotonic() - began
            moment = run.moment(seconds=passed)
            shown.show(moment.rows, moment.headline, seconds=passed)
            if submitted.done():
                submitted.result()
            finished = len(moment.rows) >= expected and all(row.done for row in moment.rows)
            if finished or passed > seconds:
                return run


def _keep(objects: dict[str, Json], event: Event) -> None:
    uid = event.object["metadata"]["uid"]
    if event.type == "DELETED":
        objects.pop(uid, None)
    else:
        objects[uid] = event.object
