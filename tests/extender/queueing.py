"""The queue of a ledger, kept from pass to pass, and what it decides, for tests."""

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import planning, telling
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


def run(source: ledger.Ledger, *, now: float = NOW) -> planning.Plan:
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


def lift(source: ledger.Ledger, name: str, **changes: Any) -> None:
    """The gate is gone, as the API server then shows the pod."""
    earmark = source.earmarks.get(PodUID(f"uid-{name}"))
    assert earmark is not None
    notes = {"cotenant.dev/earmark": earmark.note().to_json()} | changes.pop("annotations", {})
    share = source.pods[PodUID(f"uid-{name}")].share
    builders.put(source, builders.pod(name, share, gates=(), version=2, annotations=notes, **changes))


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
