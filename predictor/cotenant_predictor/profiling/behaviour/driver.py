"""What a subject asks of a device, and how a device refuses. No I/O."""

from __future__ import annotations

from typing import Any, Protocol

NOT_MODELLED = "NOT_MODELLED"
"""The name of an error: a stand-in does not know this."""


class DriverError(Exception):
    """The driver refused. `name`: as cuGetErrorName says; `code`: its number, -1 where it is none of the driver's."""

    def __init__(self, function: str, code: int, name: str, text: str) -> None:
        self.function, self.code, self.name, self.text = function, code, name, text
        super().__init__(f"{function}: {name}: {text}")

    def to_object(self) -> dict[str, Any]:
        """As JSON."""
        return {"function": self.function, "code": self.code, "name": self.name, "text": self.text[:512]}


class Device(Protocol):
    """What a subject calls. Every method raises DriverError."""

    def open(self) -> None:
        """Connect, and take a context."""

    def facts(self) -> dict[str, Any]:
        """`smCount`, `multiprocessors`, `streamPriorities`, `freeMiB`, `totalMiB`, as far as they are told."""

    def memory(self) -> dict[str, int]:
        """Return what `mem_get_info` says."""

    def allocate(self, mib: int) -> None:
        """Take memory, and use it."""

    def second_context(self) -> None:
        """One context more."""

    def step(self) -> None:
        """Compute, and wait for the end."""

    def fault(self) -> None:
        """Fault on the device."""
