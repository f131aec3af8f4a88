"""Lists into the ledger: all objects of a kind, in steps between which other events may come.

Between two steps the ledger holds what it would hold if each object of the list had come as an event of its own. What
a list lacks is gone, unless the ledger has heard of it since.
"""

from collections.abc import Iterable, Mapping

from cotenant_api.names import NodeName
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.steps import Steps

PER_STEP = 100
GPUNODES_PER_STEP = 25
"""A step takes about two milliseconds: filter waits for it."""


def pods(source: ledger.Ledger, listed: Iterable[records.Pod], *, version: int, now: float) -> Steps[None]:
    """Take in all pods as of a version. Known pods that the list lacks are gone, unless they are younger than it."""
    seen = set()
    for count, record in enumerate(listed, start=1):
        seen.add(record.uid)
        source.pod(record, now=now)
        if count % PER_STEP == 0:
            yield
    for count, uid in enumerate([uid for uid in source.pods if uid not in seen], start=1):
        known = source.pods.get(uid)
        if known is not None and known.version <= version:
            source.pod_gone(uid)
        if count % PER_STEP == 0:
            yield


def nodes(source: ledger.Ledger, listed: Iterable[records.Node]) -> Steps[None]:
    """Take in all Nodes."""
    found = {record.name: record for record in listed}
    for count, record in enumerate(found.values(), start=1):
        source.node(record)
        if count % PER_STEP == 0:
            yield
    known = [name for name, state in source.nodes.items() if state.record is not None]
    for count, name in enumerate([name for name in known if name not in found], start=1):
        source.node_gone(name)
        if count % PER_STEP == 0:
            yield


def gpunodes(source: ledger.Ledger, listed: Iterable[records.GPUNode], *, now: float) -> Steps[None]:
    """Take in all GPUNodes."""
    found = {record.name: record for record in listed}
    for count, record in enumerate(found.values(), start=1):
        source.gpunode(record, now=now, fresh=True)
        if count % GPUNODES_PER_STEP == 0:
            yield
    for count, name in enumerate([name for name in source.order if name not in found], start=1):
        source.gpunode_gone(name)
        if count % GPUNODES_PER_STEP == 0:
            yield


def leases(source: ledger.Ledger, renewed: Mapping[NodeName, float], *, now: float) -> Steps[None]:
    """Take in all agents' Leases."""
    for count, (name, time) in enumerate(renewed.items(), start=1):
        source.lease(name, time, now=now)
        if count % PER_STEP == 0:
            yield
    for name in [name for name in source.leases if name not in renewed]:
        source.lease_gone(name, now=now)
