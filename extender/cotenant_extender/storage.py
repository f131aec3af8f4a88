"""Records of PersistentVolumeClaims, PersistentVolumes and StorageClasses: only what says where a volume can be used.

Pure. An object of another shape raises one of the errors of `reading`, whose record says the least that is safe: its
volume can be used anywhere, and kube-scheduler decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_extender import sharing
from cotenant_extender.packing import constraints

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace, empty for what has none, and name."""
Terms = tuple[constraints.Term, ...]

SELECTED_NODE = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim.

    Attributes:
        volume: name of the PersistentVolume that it is bound to; empty: none yet.
        storage_class: name of its StorageClass.
        selected: name of the node for which its volume is being provisioned; empty: none.
    """

    key: Key
    volume: str
    storage_class: str
    selected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume.

    Attributes:
        terms: alternatives of its node affinity; empty: any node.
        claim: the claim that it is bound to, or kept for; None: none.
    """

    key: Key
    terms: Terms
    claim: Key | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A StorageClass; `terms`: alternatives of its allowed topologies, empty: any node."""

    key: Key
    terms: Terms


Stored = Claim | Volume | StorageClass


def claim_record(raw: Object) -> Claim:
    """Return the record of a PersistentVolumeClaim."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    return Claim(
        key=key(raw),
        volume=spec.get("volumeName") or "",
        storage_class=sharing.text(spec.get("storageClassName") or ""),
        selected=(metadata.get("annotations") or {}).get(SELECTED_NODE) or "",
    )


def volume_record(raw: Object) -> Volume:
    """Return the record of a PersistentVolume."""
    spec = raw.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    bound = spec.get("claimRef") or {}
    return Volume(
        key=key(raw),
        terms=sharing.one(constraints.terms(required)),
        claim=(bound.get("namespace") or "", bound.get("name") or "") if bound else None,
    )


def class_record(raw: Object) -> StorageClass:
    """Return the record of a StorageClass."""
    terms = tuple(
        constraints.Term(tuple(_expression(one) for one in term.get("matchLabelExpressions") or ()), ())
        for term in raw.get("allowedTopologies") or ()
    )
    return StorageClass(key=key(raw), terms=sharing.one(terms))


def key(raw: Object) -> Key:
    """Return the namespace and the name of an object."""
    metadata = raw["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def claims_of(metadata: Object, spec: Object) -> tuple[str, ...]:
    """Return the names of the claims that a pod's volumes use; those of ephemeral volumes are named after the pod."""
    found = []
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(volume["persistentVolumeClaim"].get("claimName") or "")
        elif volume.get("ephemeral"):
            found.append(f"{metadata.get('name', '')}-{volume.get('name', '')}")
    return tuple(found)


def _expression(raw: Object) -> constraints.Expression:
    return constraints.Expression(raw.get("key", ""), "In", tuple(raw.get("values") or ()))
