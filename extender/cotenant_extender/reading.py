"""Records of whatever a watch brings. Pure; nothing but `InvalidInputError` is raised.

The API server has validated what it stores, so all of this can be read. Should an object be of another shape after all,
its record says the least that is safe: a pod counts, goes nowhere, and closes its node if it runs there; a node offers
nothing; an agent is not ready; a Lease has expired. An object without a name has no record.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from cotenant_api import errors, names, packingpolicy
from cotenant_extender import records, storage

LOG = logging.getLogger(__name__)

R = TypeVar("R")
Object = Mapping[str, Any]

_WRONG = (
    errors.InvalidInputError,
    AttributeError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    ArithmeticError,
    RecursionError,
)


def pod(raw: Object, known: records.Known = records.unknown) -> records.Pod:
    """Return the record of a pod; `known` finds what was read of it before.

    Raises:
        InvalidInputError: it has no name or no UID.
    """
    return _read(raw, "Pod", lambda raw: _sound_pod(raw, known), lambda metadata: _least_pod(raw, metadata))


def node(raw: Object) -> records.Node:
    """Return the record of a Node.

    Raises:
        InvalidInputError: it has no name.
    """
    return _read(raw, "Node", _sound_node, lambda metadata: records.node_record({"metadata": metadata}))


def gpunode(raw: Object) -> records.GPUNode:
    """Return the record of a GPUNode.

    Raises:
        InvalidInputError: it has no name.
    """
    return _read(
        raw, "GPUNode", records.gpunode_record, lambda metadata: records.closed_gpunode({"metadata": metadata})
    )


def lease(raw: Object) -> records.Lease:
    """Return the record of a Lease.

    Raises:
        InvalidInputError: it has no name.
    """
    return _read(raw, "Lease", _sound_lease, lambda metadata: records.lease_record({"metadata": metadata}))


def claim(raw: Object) -> storage.Claim:
    """Return the record of a PersistentVolumeClaim.

    Raises:
        InvalidInputError: it has no name.
    """
    return _stored(raw, "PersistentVolumeClaim", storage.claim_record)


def volume(raw: Object) -> storage.Volume:
    """Return the record of a PersistentVolume.

    Raises:
        InvalidInputError: it has no name.
    """
    return _stored(raw, "PersistentVolume", storage.volume_record)


def storage_class(raw: Object) -> storage.StorageClass:
    """Return the record of a StorageClass.

    Raises:
        InvalidInputError: it has no name.
    """
    return _stored(raw, "StorageClass", storage.class_record)


def policy(raw: dict[str, Any]) -> packingpolicy.PackingPolicy:
    """Return a PackingPolicy.

    Raises:
        InvalidInputError: it cannot be read. Whoever asked keeps the one before.
    """
    try:
        return packingpolicy.PackingPolicy.from_object(raw)
    except errors.InvalidInputError:
        raise
    except _WRONG as failure:
        remedy = f"must be a PackingPolicy as the API server gives it ({errors.shortened(str(failure))})"
        raise errors.InvalidInputError("PackingPolicy", name(raw), remedy) from failure


def name(raw: Object) -> str:
    """Return the name of an object.

    Raises:
        InvalidInputError: it has none.
    """
    return str(_metadata(raw)["name"])


def _read(raw: Object, kind: str, read: Callable[[Object], R], least: Callable[[Object], R]) -> R:
    try:
        return read(raw)
    except _WRONG as failure:
        metadata = _metadata(raw)
        LOG.warning("%s %s cannot be read, and is closed: %s", kind, metadata["name"], errors.shortened(str(failure)))
        return least(metadata)


def _metadata(raw: Object) -> dict[str, str]:
    """Return what of an object's metadata is text.

    Raises:
        InvalidInputError: there is no name.
    """
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    kept = {key: text for key, text in _items(metadata) if isinstance(text, str)}
    if not kept.get("name"):
        raise errors.InvalidInputError("metadata.name", metadata, "must be the name of an object")
    return {key: kept[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in kept}


def _sound_pod(raw: Object, known: records.Known) -> records.Pod:
    """As `records.pod_record`, if what it took as it stood is text and numbers."""
    found = records.pod_record(raw, known)
    texts = (found.uid, found.namespace, found.name, found.phase, found.node or "", found.earmark or "")
    _must_be(str, *texts, *(found.packed or ()), *found.gates, *found.labels.values())
    _must_be(int, found.priority)
    if found.node is None and found.request is not None:
        # The queue keeps what it learned of equal requests.
        hash(found.request.fit_key)
    return found


def _least_pod(raw: Object, metadata: Object) -> records.Pod:
    """Return a pod that asks for one hundredth, so that it counts, in a way that is never placed."""
    if not metadata.get("uid"):
        raise errors.InvalidInputError("metadata.uid", None, "must be the UID of a pod")
    bound = {key: text for key, text in _items(raw.get("spec")) if key == "nodeName" and isinstance(text, str)}
    asking = {"name": "", "resources": {"limits": {names.GPU_SHARE: "1"}}}
    phase = {key: text for key, text in _items(raw.get("status")) if key == "phase" and isinstance(text, str)}
    going = {"deletionTimestamp": ""} if "deletionTimestamp" in dict(_items(raw.get("metadata"))) else {}
    least = records.pod_record(
        {"metadata": {**metadata, **going}, "spec": {**bound, "containers": [asking]}, "status": phase}
    )
    return replace(least, invalid="it is not of a Pod's shape")


def _sound_node(raw: Object) -> records.Node:
    found = records.node_record(raw)
    _must_be(str, found.name, *found.labels.values())
    _must_be(str, *(text for taint in found.taints for text in (taint.key, taint.value, taint.effect)))
    return found


def _sound_lease(raw: Object) -> records.Lease:
    found = records.lease_record(raw)
    _must_be(str, found.name, found.holder)
    return replace(found, duration_seconds=float(found.duration_seconds))


def _stored(raw: Object, kind: str, read: Callable[[Object], R]) -> R:
    """Read an object that says where a volume can be used; the least that is safe is that it can be used anywhere."""

    def sound(raw: Object) -> R:
        found = read(raw)
        # The queue keeps what it learned of equal constraints, and compares their labels as text.
        _must_be(str, *_leaves(found))
        return found

    return _read(raw, kind, sound, lambda metadata: read({"metadata": metadata}))


def _leaves(value: object) -> list[object]:
    """Return what stands in a record, however deep; None stands for nothing."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    if dataclasses.is_dataclass(value):
        return [leaf for field in dataclasses.fields(value) for leaf in _leaves(getattr(value, field.name))]
    return [] if value is None else [value]


def _must_be(kind: type, *values: object) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{errors.shortened(repr(value))} is no {kind.__name__}")


def _items(value: object) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
