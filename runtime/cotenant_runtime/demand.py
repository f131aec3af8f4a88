"""What the jobs with an SLO need at a moment, from their slots. Pure: slots and a time in, a demand out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant_runtime import layout

HEARTBEAT_NS: Final = 250_000_000
"""Time between two heartbeats of a writer."""
LAPSE_NS: Final = 2_000_000_000
"""Age of a heartbeat at which its writer counts as dead, and its claims end."""
UNKNOWN_FILL: Final = 500
"""Thousandths taken for a job that has not measured how much of the device its requests fill."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the jobs with an SLO need, all together."""

    attached: bool = False
    """A live job with an SLO shares the device, with requests or without."""
    latest_start_ns: int | None = None
    """Time from which they need the device alone; None: no request waits or runs a heavy phase."""
    fill: int = UNKNOWN_FILL
    """Thousandths of the device that their requests keep busy."""


NOTHING: Final = Demand()


def is_alive(slot: layout.Slot, now_ns: int) -> bool:
    """Return whether the slot's heartbeat is recent. One from further in the future than the next beat is not."""
    return -LAPSE_NS <= slot.heartbeat_ns - now_ns < HEARTBEAT_NS


def combined(slots: Iterable[layout.Slot], now_ns: int) -> Demand:
    """Return the demand of all live jobs with an SLO.

    A latest start that is further away than `layout.MAX_SPAN_NS`, or none, asks for the device at once: a job that
    has not said when it must start is not made to wait.
    """
    attached, latest, fill = False, None, 0
    for slot in slots:
        state = slot.state
        if not isinstance(state, layout.Inference) or not is_alive(slot, now_ns):
            continue
        attached = True
        fill = min(layout.FULL_FILL, fill + (state.fill or UNKNOWN_FILL))
        if state.pending and state.phase in {layout.Phase.QUEUED, layout.Phase.HEAVY}:
            start = state.latest_start_ns
            start = now_ns if not start or start - now_ns > layout.MAX_SPAN_NS else start
            latest = start if latest is None else min(latest, start)
    return Demand(attached, latest, fill or UNKNOWN_FILL)
