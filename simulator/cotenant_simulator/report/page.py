"""A page: what an experiment found, before anybody decided how it looks. Frozen values."""

import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

INTERVAL: Final = "95 % interval"
"""Of a mean over repeats, by `intervals`."""


class Basis(enum.StrEnum):
    """What figures rest on. One table rests on one basis, so that nobody takes one for the other."""

    SIMULATED = "simulated"
    PUBLISHED = "published"
    MEASURED = "measured"
    OBSERVED = "observed"
    """On a live cluster."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over repeats, with its interval (`intervals`)."""

    mean: float
    low: float
    high: float


Cell: TypeAlias = str | float | Estimate | None
"""None: there is no such figure."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: with the unit.
        form: of its numbers, as `format` takes it; empty: the column is text.
    """

    title: str
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a page.

    Attributes:
        rows: as many cells as there are columns.
        note: a sentence below it.
    """

    title: str
    basis: Basis
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: every row must have {len(self.columns)} cells")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a figure.

    Attributes:
        x, y: of equal length, x never falling.
        low, high: of an interval about y; both or none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if len(bounds) == 1 or any(len(values) != len(self.x) for values in (self.y, *bounds)):
            raise ValueError(f"{self.name}: x, y and both bounds, where there are, must be of equal length")
        if any(later < earlier for earlier, later in itertools.pairwise(self.x)):
            raise ValueError(f"{self.name}: x must never fall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines over one axis.

    Attributes:
        steps: whether a value holds until the next one, as utilization over time and a distribution do.
        logarithmic: whether x is.
        interval: what lies between low and high.
    """

    title: str
    basis: Basis
    x_label: str
    y_label: str
    series: Sequence[Series]
    steps: bool = False
    logarithmic: bool = False
    interval: str = INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """One bar for each name, with its interval.

    Attributes:
        interval: what lies between low and high.
    """

    title: str
    basis: Basis
    y_label: str
    bars: Mapping[str, Estimate]
    interval: str = INTERVAL


@dataclass(frozen=True, slots=True)
class Span:
    """A tenant's time on a GPU: from start to end in seconds, as high as its share, 0..1, of the lane."""

    start: float
    end: float
    share: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A lane for each GPU, and in it its tenants above each other."""

    title: str
    basis: Basis
    lanes: Mapping[str, Sequence[Span]]


Figure: TypeAlias = Lines | Bars | Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a report.

    Attributes:
        title: what was asked.
        answer: one sentence.
        command: that makes it again.
        conditions: what is measured, what is modelled, what is assumed: a sentence each.
        parts: in the order in which they are shown.
        document: the same for programs.
    """

    title: str
    answer: str
    command: str
    conditions: Sequence[str] = ()
    parts: Sequence[Table | Figure] = ()
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tables(self) -> Sequence[Table]:
        """The tables alone."""
        return [part for part in self.parts if isinstance(part, Table)]
