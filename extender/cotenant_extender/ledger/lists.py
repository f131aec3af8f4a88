"""Lists into the ledger: all objects of a kind, in steps between which other events may come.

Between two steps the ledger holds what it would hold if each object of the list had come as an event of its own. A list
of pods or of GPUNodes is believed whatever the resource versions say, and what it lacks is gone: but not what was
learned since the list was asked for, and is younger (see `recency`). That it was asked for is said by `begin`.
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
    """Take in all pods as of a version. What the list lacks is gone, unless learned meanwhile and younger."""
    seen, news = set(), source.news_of_pods
    for count, record in enumerate(listed, start=1):
        seen.add(record.uid)
        source.pod_listed(record, version=version, now=now)
        if count % PER_STEP == 0:
            yield
    for count, uid in enumerate([uid for uid in source.pods if uid not in seen], start=1):
        known = source.pods.get(uid)
        if known is not None and not news.outlasts(uid, version, known=known):
            source.pod_gone(uid)
        if count % PER_STEP == 0:
            yield
    news.end(version)


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


def gpunodes(source: ledger.Ledger, listed: Iterable[records.GPUNode], *, version: int, now: float) -> Steps[None]:
    """Take in all GPUNodes as of a version."""
    found = {record.name: record for record in listed}
    for count, record in enumerate(found.values(), start=1):
        source.gpunode_listed(record, version=version, now=now)
        if count % GPUNODES_PER_STEP == 0:
            yield
    for count, name in enumerate([name for name in source.order if name not in found], start=1):
        source.gpunode_gone(name, tells_of=source.graves.asked_on(name))
        if count % GPUNODES_PER_STEP == 0:
            yield
    source.news_of_gpunodes.end(version)


def leases(source: ledger.Ledger, renewed: Mapping[NodeName, float], *, now: float) -> Steps[None]:
    """Take in all agents' Leases."""
    for count, (name, time) in enumerate(renewed.items(), start=1):
        source.lease(name, time, now=now)
        if count % PER_STEP == 0:
            yield
    for name in [name for name in source.heartbeats.names if name not in renewed]:
        source.lease_gone(name, now=now)
