"""The whole page: it is told what changed in the cluster, and knows which of its parts are new. Pure.

A part is a JSON object: `node/NAME`, `waiting/NAMESPACE/NAME`, and one each of `cluster`, `policy`, `accuracy` and
`namespaces`. Nodes and waiting jobs are made again when something of them changed, the rest when it is summed up.
A part that cannot be made says so in the notes of `cluster`, and ends no other part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from cotenant_api import conditions, errors, packingpolicy
from cotenant_cli.reading import objects
from cotenant_dashboard.view import accuracy, jobs, metering, nodes, policies
from cotenant_dashboard.view.parts import Parts

VERSION: Final = 1
"""Of the parts, for who reads them: keys may be added, it changes when one goes."""
NOTES_SHOWN: Final = 50
Key = tuple[str, str]
Made = TypeVar("Made")


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
    problems: dict[str, str] = field(default_factory=dict)


class Page:
    """Made anew as the cluster changes.

    Args:
        release: that made it.
        started: when this page began to count.
        parts: that it fills.
        failed: called with the key of a part that cannot be made, and why; once for each problem.
    """

    def __init__(
        self, parts: Parts, *, release: str, started: datetime, failed: Callable[[str, Exception], None]
    ) -> None:
        self._parts, self._failed = parts, failed
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
        self._tried("policy", lambda: self._parts.put("policy", policies.part(changed.policy, changed.policy_problem)))
        self._rates = metering.total(view.rates for view in self._known.shown.values())
        self._whole = changed.whole and not any(changed.sources.values())

    def sum_up(self, changed: Changed) -> None:
        """Make again what is told of the cluster as a whole."""
        known = self._known
        views = list(known.shown.values())
        live = (one for view in views for one in view.measured)
        self._tried("accuracy", lambda: self._parts.put("accuracy", accuracy.part(live, known.measured.values())))
        self._tried("namespaces", lambda: self._parts.put("namespaces", self._namespaces()))
        # Last: its notes say which of the others cannot be made.
        self._tried("cluster", lambda: self._parts.put("cluster", self._cluster(views, changed)))

    def _node(self, name: str, found: tuple[objects.Node, Sequence[objects.Pod]] | None, now: datetime) -> None:
        part = f"node/{name}"

        def made() -> nodes.View | None:
            if found is None:
                return None
            view = nodes.view(*found, now=now)
            self._parts.put(part, view.part)
            return view

        view = self._tried(part, made)
        if view is None:
            self._known.shown.pop(name, None)
            self._parts.remove(part)
        else:
            self._known.shown[name] = view

    def _job(self, key: Key, job: jobs.Job | None, now: datetime) -> None:
        part = f"waiting/{key[0]}/{key[1]}"

        def made() -> jobs.View | None:
            if job is None:
                return None
            view = jobs.view(job, now=now)
            if view.waiting is not None:
                self._parts.put(part, view.waiting)
            return view

        view = self._tried(part, made) or jobs.View(waiting=None, measured=None)
        if view.waiting is None:
            self._known.waiting.discard(key)
            self._parts.remove(part)
        else:
            self._known.waiting.add(key)
        if view.measured is None:
            self._known.measured.pop(key, None)
        else:
            self._known.measured[key] = view.measured

    def _tried(self, part: str, make: Callable[[], Made]) -> Made | None:
        """Return what is made. Where that fails, note it on the page, and return None: no part may end the others."""
        try:
            made = make()
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is told, and the rest of the page goes on
            problem = f"{part} cannot be shown, the dashboard's log has more: {errors.shortened(repr(error))}"
            if self._known.problems.get(part) != problem:
                self._failed(part, error)
            self._known.problems[part] = problem
            return None
        self._known.problems.pop(part, None)
        return made

    def _namespaces(self) -> dict[str, Any]:
        return {
            "since": self._started,
            "countedSeconds": round(self._meter.counted_seconds),
            "rows": self._meter.rows(self._rates),
        }

    def _cluster(self, views: Sequence[nodes.View], changed: Changed) -> dict[str, Any]:
        notes = [*self._known.problems.values(), *_notes(views)]
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
