"""The whole page: it is told what changed in the cluster, and knows which of its parts are new. Pure.

A part is a JSON object: `node/NAME`, `waiting/NAMESPACE/NAME`, and one each of `cluster`, `policy`, `accuracy` and
`namespaces`. Nodes and waiting jobs are made again when something of them changed, the rest when it is summed up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from cotenant_api import conditions, packingpolicy
from cotenant_cli.reading import objects
from cotenant_dashboard.view import accuracy, jobs, metering, nodes, policies
from cotenant_dashboard.view.parts import Parts

VERSION: Final = 1
"""Of the parts, for who reads them: keys may be added, it changes when one goes."""
NOTES_SHOWN: Final = 50
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What is new in the cluster.

    Attributes:
        nodes: each with the pods that are bound to it; None: there is no such node.
        jobs: by namespace and name; None: there is no such job.
        policy: in force, as of now; `policy_problem`: why it cannot be read.
        sources: what is read, and why it may be old.
        whole: everything has been read once.
    """

    nodes: Mapping[str, tuple[objects.Node, Sequence[objects.Pod]] | None]
    jobs: Mapping[Key, jobs.Job | None]
    policy: packingpolicy.PackingPolicy | None
    policy_problem: str | None
    sources: Mapping[str, str | None]
    whole: bool


@dataclass(slots=True)
class _Known:
    shown: dict[str, nodes.View] = field(default_factory=dict)
    measured: dict[Key, accuracy.Measured] = field(default_factory=dict)
    waiting: set[Key] = field(default_factory=set)


class Page:
    """Made anew as the cluster changes.

    Args:
        release: that made it.
        started: when this page began to count.
        parts: that it fills.
    """

    def __init__(self, parts: Parts, *, release: str, started: datetime) -> None:
        self._parts = parts
        self._release, self._started = release, conditions.timestamp(started)
        self._known = _Known()
        self._meter = metering.Meter()
        self._rates: Mapping[str, metering.Rates] = {}
        self._whole = False

    @property
    def meter(self) -> metering.Meter:
        """What namespaces had so far."""
        return self._meter

    def elapsed(self, seconds: float) -> None:
        """So much time passed since this was called last, with nothing else than what is known. Old news count not."""
        if self._whole:
            self._meter.advance(self._rates, seconds)

    def update(self, changed: Changed, *, now: datetime) -> None:
        """Make again what changed: nodes, waiting jobs, the policy."""
        for name, found in changed.nodes.items():
            self._node(name, found, now)
        for key, job in changed.jobs.items():
            self._job(key, job, now)
        self._parts.put("policy", policies.part(changed.policy, changed.policy_problem))
        self._rates = metering.total(view.rates for view in self._known.shown.values())
        self._whole = changed.whole and not any(changed.sources.values())

    def sum_up(self, changed: Changed) -> None:
        """Make again what is told of the cluster as a whole."""
        known = self._known
        views = list(known.shown.values())
        live = (one for view in views for one in view.measured)
        self._parts.put("accuracy", accuracy.part(live, known.measured.values()))
        self._parts.put("namespaces", self._namespaces())
        self._parts.put("cluster", self._cluster(views, changed))

    def _node(self, name: str, found: tuple[objects.Node, Sequence[objects.Pod]] | None, now: datetime) -> None:
        if found is None:
            self._known.shown.pop(name, None)
            self._parts.remove(f"node/{name}")
            return
        view = nodes.view(*found, now=now)
        self._known.shown[name] = view
        self._parts.put(f"node/{name}", view.part)

    def _job(self, key: Key, job: jobs.Job | None, now: datetime) -> None:
        view = jobs.View(waiting=None, measured=None) if job is None else jobs.view(job, now=now)
        named = f"waiting/{key[0]}/{key[1]}"
        if view.waiting is None:
            self._known.waiting.discard(key)
            self._parts.remove(named)
        else:
            self._known.waiting.add(key)
            self._parts.put(named, view.waiting)
        if view.measured is None:
            self._known.measured.pop(key, None)
        else:
            self._known.measured[key] = view.measured

    def _namespaces(self) -> dict[str, Any]:
        return {
            "since": self._started,
            "countedSeconds": round(self._meter.counted_seconds),
            "rows": self._meter.rows(self._rates),
        }

    def _cluster(self, views: Sequence[nodes.View], changed: Changed) -> dict[str, Any]:
        notes = list(_notes(views))
        return nodes.totals(views) | {
            "v": VERSION,
            "release": self._release,
            "whole": changed.whole,
            "waiting": len(self._known.waiting),
            "sources": dict(changed.sources),
            "notes": notes[:NOTES_SHOWN],
            "moreNotes": max(len(notes) - NOTES_SHOWN, 0),
        }


def _notes(views: Sequence[nodes.View]) -> Iterator[str]:
    for view in views:
        yield from view.notes
