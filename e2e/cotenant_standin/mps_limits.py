"""What an MPS client may use: the server's limits, lowered by the client's environment. Pure."""

import re
from dataclasses import dataclass

_SIZE = re.compile(r"(\d*)([gG]?)")
_GIB = 1024
"""In MiB."""


@dataclass(frozen=True)
class Limits:
    """Of a server for its clients, or of one client. None: all of the memory; priority 0: normal, 1: below normal."""

    thread_percentage: float = 100.0
    memory_mib: int | None = None
    priority: int = 0

    def lowered(self, asked: "Limits") -> "Limits":
        """Return what a client gets that asks for less or more.

        A client's environment can only lower what the server allows (mpsv2-interface.html,
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT).
        """
        memory = [limit for limit in (self.memory_mib, asked.memory_mib) if limit is not None]
        return Limits(
            thread_percentage=min(self.thread_percentage, asked.thread_percentage),
            memory_mib=min(memory, default=None),
            priority=max(self.priority, asked.priority),
        )


def asked(percentage: str, memory: str, priority: str, *, gpu: str) -> Limits:
    """Return what an environment asks for; `-` or nothing: no limit.

    Args:
        percentage: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.
        memory: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: `0=1G,1=512M`, with UUIDs or with the client's numbers of devices.
        priority: CUDA_MPS_CLIENT_PRIORITY.
        gpu: the UUID of the one device that a client sees; it is the client's device 0.
    """
    return Limits(
        thread_percentage=float(percentage) if percentage.strip("-") else 100.0,
        memory_mib=_memory(memory, gpu),
        priority=int(priority) if priority.strip("-") else 0,
    )


def mib(size: str) -> int:
    """Return the MiB of `512M` or `2G`, as NVIDIA's program reads them (run: 550 to 580); 0: no limit.

    Any other unit, or none, counts as M.
    """
    number, gib = _SIZE.match(size).groups()  # type: ignore[union-attr]  # it matches everything
    return int(number or 0) * (_GIB if gib else 1)


def shown(mib: int) -> str:
    """Return a size as NVIDIA's program tells it (run: 550 to 580): from 1 GiB on in whole G, rounded down."""
    return f"{mib}M" if mib < _GIB else f"{mib // _GIB}G"


def _memory(text: str, gpu: str) -> int | None:
    for pair in text.split(","):
        device, _, size = pair.partition("=")
        if size and device in {"0", gpu}:
            return mib(size)
    return None
