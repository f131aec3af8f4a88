"""What must hold after every event, judged by what the API server stores and what runs on the machines.

The ledger is not asked. A rule that depends on the policy is judged by the most generous policy under which any of a
GPU's tenants was placed: whichever of them was placed last was placed under one of these, beside all others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from api_server import pods, store
from cotenant_api import booking, names, packingpolicy, placement
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender.kube import pods as paths
from cotenant_extender.packing import policies
from simulation import agents, messages, sites

Object = dict[str, Any]

EVENT_REASONS = frozenset({"NoPlacement", "GangSplit", "Preempted", "Preempting", *PackedReason}) - {
    PackedReason.PLACED
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that is bound with a valid placement and has not finished."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    document: placement.Placement
    suspect_seconds: float
    job: str


class World(Protocol):
    """What the rules are about."""

    objects: store.Store

    def clock(self) -> float:
        """Return the time."""

    @property
    def sites(self) -> Sequence[sites.Site]:
        """All nodes."""

    def fail(self, text: str) -> None:
        """A rule is broken."""


class Truth:
    """Placements as they are.

    Attributes:
        placed: by UID.
        runs_since: of pods that run.
        policies: every generation of the policy that there was.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.placed: dict[PodUID, Placed] = {}
        self.runs_since: dict[PodUID, float] = {}
        self.policies: dict[int, policies.InForce] = {}
        world.objects.listeners.append(self._heard)

    def _heard(self, change: store.Change) -> None:
        match change.collection:
            case paths.POLICIES:
                found = packingpolicy.PackingPolicy.from_object(change.value)
                self.policies[found.generation] = policies.InForce(found)
            case pods.PODS:
                self._pod(change)
            case "/api/v1/events":
                if change.value.get("reason") not in EVENT_REASONS:
                    self._world.fail(f"an event with an unknown reason: {change.value}")

    def _pod(self, change: store.Change) -> None:
        value, before = change.value, change.before
        uid = PodUID(value["metadata"]["uid"])
        if before is not None and change.kind == "MODIFIED":
            self._stays(before, value)
            self._ended(before, value)
        self._told(value)
        finished = (value.get("status") or {}).get("phase") in pods.FINISHED
        if change.kind == "DELETED" or finished:
            self.placed.pop(uid, None)
            self.runs_since.pop(uid, None)
            return
        if value["status"].get("phase") == "Running":
            self.runs_since.setdefault(uid, self._world.clock())
        node = value["spec"].get("nodeName")
        if node is None or uid in self.placed:
            return
        document = agents.placement_of(value, node)
        if document is not None:
            metadata = value["metadata"]
            labels = metadata.get("labels") or {}
            seconds, job = float((metadata.get("annotations") or {}).get(names.SUSPECT_SECONDS, 0)), _job(metadata)
            self.placed[uid] = Placed(metadata["name"], metadata["namespace"], labels, document, seconds, job)
            for gpu in document.gpus:
                self.check(gpu.uuid)
                self._check_suspects(uid, gpu.uuid)
        elif value["status"].get("phase") == "Running":
            self._world.fail(f"{value['metadata']['name']} runs without a placement")

    def _stays(self, before: Object, now: Object) -> None:
        """What is decided once is decided."""
        name = now["metadata"]["name"]
        node = before["spec"].get("nodeName")
        if before["metadata"]["uid"] != now["metadata"]["uid"]:
            self._world.fail(f"{name} was replaced without a deletion")
        if node and now["spec"].get("nodeName") != node:
            self._world.fail(f"{name} was bound to {node} and is bound again, to {now['spec'].get('nodeName')}")
        notes = before["metadata"].get("annotations") or {}
        text = notes.get(names.PLACEMENT)
        if node and (now["metadata"].get("annotations") or {}).get(names.PLACEMENT) != text:
            self._world.fail(f"the placement of {name} was changed")

    def _ended(self, before: Object, now: Object) -> None:
        """A pod with a result is not evicted: the API server would delete it at once, and its result with it."""
        if (before.get("status") or {}).get("phase") in pods.FINISHED and _evictions(now) > _evictions(before):
            self._world.fail(f"{now['metadata']['name']} was evicted after it had ended")

    def _told(self, value: Object) -> None:
        """Conditions are of the known words."""
        for item in (value.get("status") or {}).get("conditions") or ():
            if item["type"] != names.PACKED:
                continue
            reasons = set(PackedReason)
            placed = item["reason"] == PackedReason.PLACED
            if item["reason"] not in reasons or (item["status"] == "True") is not placed:
                self._world.fail(f"a condition that is none: {item}")
            elif not messages.known(item["reason"], item["message"]):
                self._world.fail(f"a message that is none of the known ones: {item}")

    def check(self, uuid: GPUUID) -> None:
        """The rules of one GPU."""
        here = {uid: placed for uid, placed in self.placed.items() if _books(placed, uuid)}
        shares = {uid: _entry(placed, uuid).share for uid, placed in here.items()}
        for site in self._world.sites:
            for uid, container in site.machine.containers.items():
                if uuid in container.shares:
                    shares.setdefault(uid, container.shares[uuid])
        if sum(shares.values()) > names.HUNDREDTHS:
            self._world.fail(f"{uuid} holds more than a whole GPU: {shares}")
        site = next(site for site in self._world.sites if uuid in site.machine.gpus)
        generations = {placed.document.policy_generation for placed in here.values()}
        packings = [self.policies[number].packing(GPUModel(site.machine.model)) for number in sorted(generations)]
        limit = max(packing.max_tenants_per_gpu for packing in packings)
        if len(here) > limit:
            self._world.fail(f"{uuid} has {len(here)} tenants, {limit} are allowed")
        memory = agents.MEMORY_MIB[site.machine.model]
        may = max(booking.bookable_mib(memory, packing) for packing in packings)
        booked = sum(_entry(placed, uuid).memory_mib for placed in here.values())
        if len(here) > 1 and booked > may:
            self._world.fail(f"{uuid} has {booked} MiB booked, {may} may be")
        self._check_tenancy(uuid, list(here.values()))

    def _check_suspects(self, newcomer: PodUID, uuid: GPUUID) -> None:
        """No two that may have caused a fault are put together before one of them has run for long enough."""
        if not self.placed[newcomer].suspect_seconds:
            return
        job = self.placed[newcomer].job
        others = {uid: placed for uid, placed in self.placed.items() if placed.job != job and _books(placed, uuid)}
        for uid, placed in others.items():
            ran = self._world.clock() - self.runs_since.get(uid, self._world.clock())
            if ran < placed.suspect_seconds:
                self._world.fail(f"{uuid} is shared by suspects {self.placed[newcomer].name} and {placed.name}")

    def _check_tenancy(self, uuid: GPUUID, here: list[Placed]) -> None:
        for index, one in enumerate(here):
            for other in here[index + 1 :]:
                if not any(
                    _together(one, other, self.policies[placed.document.policy_generation]) for placed in (one, other)
                ):
                    self._world.fail(f"{uuid} is shared by {one.name} and {other.name}, which tenancy forbids")


def _job(metadata: Object) -> str:
    """Its controller; itself where it has none."""
    owners = (owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    return str(next(owners, metadata["uid"]))


def _evictions(value: Object) -> int:
    return sum(1 for item in (value.get("status") or {}).get("conditions") or () if item["type"] == "DisruptionTarget")


def _books(placed: Placed, uuid: GPUUID) -> bool:
    return any(gpu.uuid == uuid for gpu in placed.document.gpus)


def _entry(placed: Placed, uuid: GPUUID) -> placement.GPUBooking:
    return next(gpu for gpu in placed.document.gpus if gpu.uuid == uuid)


def _together(one: Placed, other: Placed, policy: policies.InForce) -> bool:
    """Whether a policy lets two pods share a GPU."""
    match policy.spec.tenancy:
        case packingpolicy.Tenancy.ANY:
            return True
        case packingpolicy.Tenancy.LABEL:
            label = policy.spec.tenancy_label
            first, second = (None if label is None else pod.labels.get(label) for pod in (one, other))
            if first is not None or second is not None:
                return first == second
    return one.namespace == other.namespace
