"""Devices that groups of operators run on: a GPU, the cores of this machine, and a virtual one for tests.

A device measures and waits; it decides nothing.
"""

from __future__ import annotations

from typing import Any, Protocol

from cotenant_runtime import graphs
from cotenant_runtime.groups import Sample


class Device(Protocol):
    """What the runtime needs of a device."""

    name: str
    """Goes into the digest of a model, as timings of one device say nothing of another."""
    rates: graphs.Rates

    def mark(self) -> Any:
        """Return a mark at this place in the order of launched work."""
        ...

    def sample(self, begin: Any, end: Any) -> Sample | None:
        """Return the timing between two marks, or None while the work between them is not finished."""
        ...

    def launched(self, duration_ns: int) -> None:
        """Note that work of this predicted duration has been launched up to here."""
        ...

    def unfinished_ns(self) -> int:
        """Return the predicted time of what is launched and not finished."""
        ...

    def settle(self, at_most_ns: int) -> None:
        """Wait until what is unfinished takes at most this time."""
        ...
