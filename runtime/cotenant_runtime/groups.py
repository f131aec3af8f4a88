"""What is known of each group of operators: how long it takes and how much of the device it fills. Pure.

A group is one module in one phase. It is first known by the graph document, or by its operator class alone, then by
timings of the first steps. What was learned of a model is kept under the model's digest, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cotenant_runtime import graphs, layout
from cotenant_runtime.gate import Group

SAMPLES: Final = 5
"""Timings of a group that are taken before its estimate is settled."""
MAX_GROUPS: Final = 65_536
_HEAVY_CLASSES: Final = frozenset({"conv", "matmul", "attention", "rnn"})
_GUESS_NS: Final = 1_000_000


class Key(NamedTuple):
    """A group: the place of its module among the model's modules, and the phase."""

    module: str
    phase: str


class Sample(NamedTuple):
    """One timing of a group. `fill` is None where the device cannot tell."""

    duration_ns: int
    fill: int | None


@dataclass(slots=True)
class Book:
    """Knowledge of the groups of one process."""

    priors: Mapping[tuple[str, str], graphs.Estimate] = field(default_factory=dict)
    """By operator class and phase, from the graph document."""
    known: dict[Key, Group] = field(default_factory=dict)
    _classes: dict[Key, str] = field(default_factory=dict)
    _samples: dict[Key, list[Sample]] = field(default_factory=dict)

    def add(self, key: Key, *, module: str) -> None:
        """Make a group known by the type of its module, unless it is known already."""
        if key in self.known or len(self.known) >= MAX_GROUPS:
            return
        operator_class = graphs.operator_class(module)
        self._classes[key] = operator_class
        prior = self.priors.get((operator_class, key.phase))
        if prior is not None:
            self.known[key] = Group(duration_ns=prior.duration_ns, fill=prior.fill)
        else:
            fill = layout.FULL_FILL if operator_class in _HEAVY_CLASSES else 0
            self.known[key] = Group(duration_ns=_GUESS_NS, fill=fill)

    def restore(self, learned: Mapping[Key, Group]) -> None:
        """Take over what an earlier run of the same model has learned: these groups need no timings."""
        self.known.update(learned)
        self._samples.update({key: [Sample(group.duration_ns, group.fill)] * SAMPLES for key, group in learned.items()})

    def group(self, key: Key) -> Group:
        """Return what is known of a group; one that was never added fills the device."""
        return self.known.get(key, Group(duration_ns=_GUESS_NS, fill=layout.FULL_FILL))

    def wants(self, key: Key) -> bool:
        """Return whether another timing of the group would change its estimate."""
        return len(self._samples.get(key, ())) < SAMPLES

    def time(self, key: Key, sample: Sample) -> None:
        """Add a timing: the medians of all timings replace what was known."""
        if not self.wants(key):
            return
        samples = self._samples.setdefault(key, [])
        samples.append(Sample(min(max(sample.duration_ns, 0), layout.MAX_SPAN_NS), sample.fill))
        fills = [one.fill for one in samples if one.fill is not None]
        fill = round(statistics.median(fills)) if fills else self.group(key).fill
        duration = round(statistics.median(one.duration_ns for one in samples))
        self.known[key] = Group(duration_ns=duration, fill=min(max(fill, 0), layout.FULL_FILL))

    def settled(self) -> dict[Key, Group]:
        """Return the groups with enough timings."""
        return {key: group for key, group in self.known.items() if not self.wants(key)}


def digest(parts: Iterable[str]) -> str:
    """Return the digest of a model: of its modules, their parameters' shapes, torch and the device."""
    content = hashlib.sha256()
    for part in parts:
        content.update(part.encode())
        content.update(b"\0")
    return content.hexdigest()


def to_json(learned: Mapping[Key, Group]) -> str:
    """Return what was learned as a JSON document, the same for the same groups."""
    rows = [[*key, group.duration_ns, group.fill] for key, group in sorted(learned.items())]
    return json.dumps({"v": 1, "groups": rows})


def from_json(text: str) -> dict[Key, Group]:
    """Return what an earlier run has written. Rows that are out of range are left out.

    Raises:
        ValueError: it is no such document.
    """
    document = json.loads(text)
    rows = document.get("groups") if isinstance(document, dict) and document.get("v") == 1 else None
    if not isinstance(rows, list) or len(rows) > MAX_GROUPS:
        raise ValueError("must be a document of groups, version 1")
    return dict(filter(None, map(_row, rows)))


def _row(row: Any) -> tuple[Key, Group] | None:
    if not isinstance(row, list) or len(row) != 4:
        return None
    module, phase, duration, fill = row
    if not isinstance(module, str) or not isinstance(phase, str):
        return None
    if type(duration) is not int or type(fill) is not int:
        return None
    if not 0 <= duration <= layout.MAX_SPAN_NS or not 0 <= fill <= layout.FULL_FILL:
        return None
    return Key(module, phase), Group(duration_ns=duration, fill=fill)
