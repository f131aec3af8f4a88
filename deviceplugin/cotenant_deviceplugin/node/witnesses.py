"""Who held each GPU when a fault of it was seen, kept until the fault is weighed: its tenants may have ended by then.

A fault is seen at a look of MPS, or when the driver tells of an XID. It happened after the last look that found nothing
wrong, so whoever held the GPU at that look counts as well.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.binding.grants import Grant


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Who may have caused a fault.

    Attributes:
        tenants: pods whose grants stood.
        others: whether somebody else may have been there: a process that is no tenant's, a tenant of long before.
    """

    tenants: frozenset[PodUID] = frozenset()
    others: bool = False

    def together(self, other: "Holders") -> "Holders":
        """Return both."""
        return Holders(tenants=self.tenants | other.tenants, others=self.others or other.others)


NOBODY = Holders()


class Canaries(Protocol):
    """Knows which canaries ran (`mps.canaries.Canaries`)."""

    @property
    def pids(self) -> frozenset[int]:
        """Processes of canaries that live."""

    def last(self, gpu: GPUUID) -> int | None:
        """Return the process of the last canary of a GPU."""


class Witnesses:
    """The holders of one node's GPUs.

    Args:
        granted: the grants that stand on a GPU. A pod that is still being proven has never run.
        strange: whether a process is on a GPU that no tenant explains.
        canaries: of the agent, any of which may have caused a fault itself.
    """

    def __init__(
        self,
        granted: Callable[[GPUUID], Iterable[Grant]],
        *,
        strange: Callable[[GPUUID], bool],
        canaries: Canaries,
    ) -> None:
        self._granted, self._strange, self._canaries = granted, strange, canaries
        self._since: dict[GPUUID, Holders] = {}
        """Who held a GPU at the last look that found nothing wrong, and at looks after it."""
        self._over: dict[GPUUID, int] = {}
        """The last canary that had ended before that look."""
        self._seen: dict[GPUUID, Holders] = {}

    def looked(self, gpu: GPUUID, *, well: bool) -> None:
        """Take in a look of MPS; `well`: it found nothing wrong."""
        last = self._canaries.last(gpu)
        if well and last is not None and last not in self._canaries.pids:
            self._over[gpu] = last
        now = self._now(gpu)
        self._since[gpu] = now if well else self._since.get(gpu, NOBODY).together(now)

    def saw(self, gpu: GPUUID, *, late: bool = False) -> None:
        """Keep who held a GPU at a fault that is seen now; `late`: it may have happened before they held it."""
        held = self._since.get(gpu, NOBODY).together(self._now(gpu)).together(Holders(others=late))
        self._seen[gpu] = self._seen.get(gpu, NOBODY).together(held)

    def taken(self, gpu: GPUUID) -> Holders:
        """Return who held a GPU when the faults were seen that are weighed now; they are not told again."""
        return self._seen.pop(gpu, None) or self._now(gpu)

    def _now(self, gpu: GPUUID) -> Holders:
        last = self._canaries.last(gpu)
        proving = last is not None and last != self._over.get(gpu)
        tenants = frozenset(grant.pod_uid for grant in self._granted(gpu))
        return Holders(tenants=tenants, others=self._strange(gpu) or proving)
