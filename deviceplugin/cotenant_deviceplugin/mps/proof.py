"""Decide which lines of a daemon's output count as a fault: those that something else proves. Pure.

Whoever reaches the daemon's socket can have any line written to its output, so that a line alone is no fault. Two
things prove one that no text can make:

- the driver tells of a critical event (XID) of the GPU;
- all clients that the server had are gone. A server that had a fault is ACTIVE again once all clients of that time have
  ended: https://docs.nvidia.com/deploy/mps/latest/when-to-use-mps.html, "memory protection and error containment". How
  a client ended nobody can see here.

A server at FAULT and one that ended under its clients are faults without any line: see `supervision`.
"""

from dataclasses import dataclass, replace
from typing import Final

LOOKS: Final = 3
"""For so many more observations a line waits for its proof, and a proof for its line: they come in either order."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What was heard of a fault lately; each with the number of further observations for which it counts.

    Attributes:
        lines: that nothing has proven.
        event: the driver told of a critical event.
        loss: all clients were gone.
        fault: a fault began: what is heard now belongs to it.
    """

    lines: tuple[tuple[str, int], ...] = ()
    event: int = 0
    loss: int = 0
    fault: int = 0

    @property
    def pending(self) -> bool:
        """Return whether the next observations may prove something that was heard."""
        return bool(self.lines or self.event or self.loss)


NOTHING: Final = Heard()
FAULT: Final = Heard(fault=LOOKS)
"""A fault has begun, whatever showed it: its lines and its events may still come."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """What follows from one observation.

    Attributes:
        heard: to remember.
        proven: the line of a fault that is proven now.
        unproven: lines that nothing has proven in time. A tenant may have written them.
    """

    heard: Heard
    proven: str | None = None
    unproven: tuple[str, ...] = ()


def weigh(heard: Heard, *, line: str | None, event: bool, loss: bool) -> Weighed:
    """Take up one observation: the fatal line that was said since the last one, if any, and what may prove a line."""
    if heard.fault:
        return Weighed(heard=replace(heard, fault=heard.fault - 1))
    lines = heard.lines if line is None else (*heard.lines, (line, LOOKS + 1))
    if lines and (event or loss or heard.event or heard.loss):
        return Weighed(heard=FAULT, proven=lines[-1][0])
    aged = [(said, left - 1) for said, left in lines]
    return Weighed(
        heard=Heard(
            lines=tuple((said, left) for said, left in aged if left),
            event=LOOKS if event else max(0, heard.event - 1),
            loss=LOOKS if loss else max(0, heard.loss - 1),
        ),
        unproven=tuple(said for said, left in aged if not left),
    )
