"""What of a timeline is drawn: which lanes, until when, and how high each tenant stands in its lane.

A picture of 10,000 GPUs shows nothing. Of many lanes some are chosen, evenly by how much they are used, and the
caption says which. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_simulator.report import page

MOST_LANES: Final = 40
MOST_SPANS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One tenant's stay: steps of its lower edge.

    Attributes:
        times: in seconds, when an edge begins to hold, and the end.
        bottoms: of the lane, one fewer than times.
    """

    span: page.Span
    times: Sequence[float]
    bottoms: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is drawn.

    Attributes:
        lanes: in the order of the timeline.
        until: seconds; what begins later is not drawn.
        remark: what is left out, in words; empty: nothing is.
    """

    lanes: Mapping[str, Sequence[page.Span]]
    until: float
    remark: str


def chosen(shown: page.Timeline) -> Chosen:
    """Return the lanes that are drawn, and of them the time that is."""
    lanes, remark = shown.lanes, ""
    if len(lanes) > MOST_LANES:
        ranked = sorted(lanes, key=lambda name: (-used(lanes[name]), name))
        places = {ranked[place * (len(ranked) - 1) // (MOST_LANES - 1)] for place in range(MOST_LANES)}
        remark = f"{MOST_LANES} of {len(lanes):,} GPUs, evenly from the most used to the least."
        lanes = {name: spans for name, spans in lanes.items() if name in places}
    until = max((span.end for spans in lanes.values() for span in spans), default=0.0)
    starts = sorted(span.start for spans in lanes.values() for span in spans)
    if len(starts) > MOST_SPANS:
        until = starts[MOST_SPANS]
        remark = f"{remark} The first {MOST_SPANS:,} of their {len(starts):,} stays.".strip()
    return Chosen(lanes=lanes, until=until, remark=remark)


def used(spans: Sequence[page.Span]) -> float:
    """Share times seconds."""
    return sum((span.end - span.start) * span.share for span in spans)


def stacked(spans: Sequence[page.Span], *, until: float) -> list[Shape]:
    """Tenants above each other, who came first lowest; who is above one that leaves comes down."""
    there = sorted((span for span in spans if span.start < min(span.end, until)), key=lambda span: span.start)
    shapes = []
    for place, span in enumerate(there):
        end = min(span.end, until)
        below = [other for other in there[:place] if other.end > span.start]
        leaves = sorted({other.end for other in below if other.end < end})
        begins = [span.start, *leaves]
        bottoms = [sum(other.share for other in below if other.end > begin) for begin in begins]
        shapes.append(Shape(span=span, times=[*begins, end], bottoms=bottoms))
    return shapes


def height(shapes: Sequence[Shape]) -> float:
    """Of the highest stack; at least 1, the whole GPU."""
    return max((max(shape.bottoms) + shape.span.share for shape in shapes), default=1.0)
