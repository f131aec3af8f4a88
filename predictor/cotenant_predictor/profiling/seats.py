"""What a tenant's process is started for, and how it can fail. Pure."""

from __future__ import annotations

import dataclasses

_MAX_REASON = 256


@dataclasses.dataclass(frozen=True)
class Seat:
    """The jobs of a process and its limits. Equal seats can use the same process."""

    jobs: tuple[str, ...]
    under_mps: bool = False
    thread_percentage: int | None = None
    client_priority: int = 0
    memory_limit_mib: int | None = None


class TenantError(Exception):
    """A tenant's process failed. `outcome`: OutOfMemory, Crashed or Timeout."""

    def __init__(self, outcome: str, reason: str, seat: Seat | None = None) -> None:
        self.outcome, self.reason, self.seat = outcome, reason[:_MAX_REASON], seat
        super().__init__(f"{outcome}: {self.reason}")
