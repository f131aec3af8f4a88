"""The queue of a ledger, kept from pass to pass, and what it decides, for tests."""

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import passes, planning, telling
from extender import builders
from extender.builders import NOW

Object = dict[str, Any]

_QUEUES: WeakKeyDictionary[ledger.Ledger, tuple[planning.Queue, telling.Teller]] = WeakKeyDictionary()


def queue(source: ledger.Ledger) -> planning.Queue:
    """The queue that looks at a ledger."""
    return _both(source)[0]


def teller(source: ledger.Ledger) -> telling.Teller:
    """Who says why pods wait there."""
    return _both(source)[1]


def _both(source: ledger.Ledger) -> tuple[planning.Queue, telling.Teller]:
    if source not in _QUEUES:
        made = planning.Queue()
        _QUEUES[source] = made, telling.Teller(made)
    return _QUEUES[source]


def run(source: ledger.Ledger, *, now: float = NOW) -> passes.Plan:
    """A pass."""
    assert source.policy is not None
    return queue(source).plan(source, source.policy, now=now)


def lifted(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    """A pass; names of the pods that were earmarked."""
    return [lift.record.name for lift in run(source, now=now).lifts if lift.earmark is not None]


def evicted(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    """A pass; names of the pods that are to be evicted."""
    return [victim.name for eviction in run(source, now=now).evictions for victim in eviction.victims]


def told(source: ledger.Ledger, name: str, *, now: float = NOW) -> tuple[PackedReason, str]:
    """A pass; what a pod is told after it."""
    run(source, now=now)
    return words(source, name, now=now)


def words(source: ledger.Ledger, name: str, *, now: float = NOW) -> tuple[PackedReason, str]:
    """What a pod is told as things are."""
    assert source.policy is not None
    waiting = next(pod for pod in teller(source).waiting(source) if pod.record.name == name)
    return teller(source).explain(source, source.policy, waiting, now=now)


def ordered(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    """Who waits, in order, with nothing placed."""
    assert source.policy is not None
    found = planning.Queue()
    found.line.update(source, source.policy.spec.queue, set(source.pods), now=now)
    return [member.name for entry in found.line.entries for member in entry.members]


def held(source: ledger.Ledger) -> list[str]:
    """GPUs that are held."""
    return [gpu.uuid for node in source.seen().nodes for gpu in node.gpus if gpu.hold is not None]


def booked(source: ledger.Ledger) -> dict[str, int]:
    """Hundredths booked, by GPU."""
    return {gpu.uuid: gpu.share for node in source.seen().nodes for gpu in node.gpus if gpu.share}


def lift(source: ledger.Ledger, name: str, *, now: float = NOW, **changes: Any) -> None:
    """The gate is gone, as the API server then shows the pod."""
    earmark = source.earmarks.get(PodUID(f"uid-{name}"))
    assert earmark is not None
    notes = {"cotenant.dev/earmark": earmark.note().to_json()} | changes.pop("annotations", {})
    share = source.pods[PodUID(f"uid-{name}")].share
    found = builders.pod(name, share, **{"gates": (), "version": 2, "annotations": notes, **changes})
    builders.put(source, found, now=now)


def end(source: ledger.Ledger, name: str) -> None:
    """A bound pod finishes."""
    record = source.pods[PodUID(f"uid-{name}")]
    source.pod(replace(record, phase="Succeeded"), now=NOW)


def member(name: str, share: int = 60, *, size: int = 3, **changes: Any) -> Object:
    """A pod of the gang g."""
    notes = builders.gang("g", size) | changes.pop("annotations", {})
    return builders.pod(name, share, annotations=notes, **changes)


def full(*, nodes: int = 1, shares: tuple[int, ...] = (50, 70), **spec: Any) -> ledger.Ledger:
    """A cluster with a bound pod on each GPU: b00, b01, ..."""
    source = builders.cluster(nodes=nodes, gpus=len(shares), **{"queue": {"maxWaitSeconds": 60}, **spec})
    for index in range(nodes):
        for slot, share in enumerate(shares):
            uuid = f"GPU-n{index}-{slot}"
            builders.put(source, builders.bound(f"b{index}{slot}", share, f"n{index}", uuid))
    return source


def runs(source: ledger.Ledger, name: str, share: int, gpu: str = "GPU-n0-0", **changes: Any) -> None:
    """A pod that runs since an hour, unless `started` says otherwise."""
    started = changes.pop("started", NOW - 3600)
    raw = builders.bound(name, share, gpu.split("-")[1], gpu, **changes)
    raw["status"]["startTime"] = builders.timestamp(started)
    builders.put(source, raw)


def leaving(source: ledger.Ledger, name: str, *, until: float | None = None) -> None:
    """A pod is being deleted, with a deletion timestamp."""
    record = source.pods[PodUID(f"uid-{name}")]
    source.pod(replace(record, deleting=True, tenure=replace(record.tenure, leaves=until)), now=NOW)


def tenant(name: str, share: int, gpu: str, left: float, **changes: Any) -> dict[str, Any]:
    """A bound pod that must have ended in so many seconds."""
    raw = builders.bound(name, share, gpu.split("-")[1], gpu, activeDeadlineSeconds=left + 100_000, **changes)
    raw["status"]["startTime"] = builders.timestamp(NOW - 100_000)
    return raw


def waiting_for(share: int, *tenants: dict[str, Any], nodes: int = 1, gpus: int = 1, **job: Any) -> ledger.Ledger:
    """A cluster in which the pod `old` waits too long, and GPUs are held for it."""
    source = builders.cluster(nodes=nodes, gpus=gpus, queue={"maxWaitSeconds": 60})
    builders.put(source, *tenants, builders.pod("old", share, created=NOW - 61, **job))
    assert lifted(source) == []
    assert held(source) != []
    return source


def ran(source: ledger.Ledger, share: int, *seconds: float, ended: float = NOW, namespace: str = "team") -> None:
    """Pods of a Job succeed that ran so long."""
    for number, run_for in enumerate(seconds):
        name = f"ran-{namespace}-{share}-{ended:.0f}-{number}"
        raw = builders.of_job(builders.bound(name, share, "n0", "GPU-n0-0", phase="Succeeded", namespace=namespace))
        raw["status"]["startTime"] = builders.timestamp(ended - run_for)
        raw["status"]["containerStatuses"] = [{"state": {"terminated": {"finishedAt": builders.timestamp(ended)}}}]
        builders.put(source, raw)
