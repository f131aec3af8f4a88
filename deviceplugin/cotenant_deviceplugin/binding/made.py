"""Specifications that the agent has had made: each GPU keeps its own for as long as that serves it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cotenant_api import backoff, errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import cdi, choice
from cotenant_deviceplugin.binding.grants import Numbers

FIRST_PAUSE_SECONDS = 20.0
LONGEST_PAUSE_SECONDS = 300.0
"""After an attempt that left a GPU without a specification; doubled each time."""


class Maker(Protocol):
    """What makes a specification where none is found: `toolkit.Toolkit`."""

    async def generate(self, gpu: GPUUID | None = None) -> cdi.Object:
        """Return a specification that knows GPUs by their UUIDs: every GPU, or one alone. Raises TemporaryError."""


@dataclass(frozen=True)
class _Tried:
    """An attempt that did not bring all that was due.

    Attributes:
        due: the GPUs that another attempt would be for.
        in_vain: how many such attempts there were in a row.
        not_before: when the next attempt for the same GPUs may begin.
    """

    due: Mapping[GPUUID, Numbers]
    in_vain: int
    not_before: float


class Made:
    """What was made for each GPU of a node.

    Args:
        maker: makes specifications; None: nobody does.
        monotonic: a clock that never goes back, in seconds.
    """

    def __init__(self, maker: Maker | None, monotonic: Callable[[], float]) -> None:
        self._maker, self._monotonic = maker, monotonic
        self._driver: str | None = None
        self._contents: dict[GPUUID, cdi.Object] = {}
        self._faults: dict[GPUUID, str] = {}
        self._stale = False
        self._tried: _Tried | None = None

    def know_driver(self, version: str) -> None:
        """Drop what was made for another version of the driver than runs now: its libraries serve nobody."""
        if version != self._driver:
            self._driver, self._contents, self._faults, self._tried = version, {}, {}, None

    async def update(self, gpus: Mapping[GPUUID, Numbers]) -> None:
        """Have a specification made for each of these GPUs that has none, unless that was tried lately.

        Args:
            gpus: those that need one, with their numbers.
        """
        known = {gpu: numbers for gpu, numbers in gpus.items() if numbers.minor is not None}
        due, tried = self._due(known), self._tried
        again = tried is not None and tried.due == due
        if self._maker is None or not due or (tried is not None and again and self._monotonic() < tried.not_before):
            return
        await self._make(self._maker, due)
        in_vain = tried.in_vain if tried is not None and again else 0
        pause = backoff.doubled(FIRST_PAUSE_SECONDS, in_vain, most=LONGEST_PAUSE_SECONDS)
        left = self._due(known)
        self._tried = _Tried(left, in_vain + 1, self._monotonic() + pause) if left else None

    def renew(self) -> None:
        """Have all made anew with the next update, and keep until then what there is: the driver was away."""
        self._stale, self._tried = True, None

    def base(self, gpu: GPUUID, numbers: Numbers) -> cdi.Base | None:
        """Return the edits of a GPU; None: nothing that was made gives the GPU."""
        if gpu not in self._contents or choice.amiss(self._contents[gpu], gpu, numbers) is not None:
            return None
        return cdi.base_of(self._contents[gpu], gpu, numbers)

    def told(self, gpu: GPUUID, numbers: Numbers) -> str | None:
        """Return in words why nothing that was made gives a GPU; None where something does, or nobody makes any."""
        if self._maker is None:
            return None
        if numbers.minor is None:
            return "none is made, as the driver does not tell the GPU's minor number"
        if gpu in self._faults:
            return self._faults[gpu]
        amiss = choice.amiss(self._contents[gpu], gpu, numbers) if gpu in self._contents else None
        return None if amiss is None else f"the one that the node agent has made {amiss}"

    def _due(self, gpus: Mapping[GPUUID, Numbers]) -> dict[GPUUID, Numbers]:
        return {gpu: numbers for gpu, numbers in gpus.items() if self._stale or self.base(gpu, numbers) is None}

    async def _make(self, maker: Maker, due: Mapping[GPUUID, Numbers]) -> None:
        """Have one made for all GPUs, or else for each GPU that has none alone: one bad GPU fails the tool for all."""
        self._faults = {}
        try:
            content = await maker.generate()
        except errors.TemporaryError as error:
            why = str(error)
        else:
            self._contents |= dict.fromkeys(due, content)
            self._stale = False
            return
        for gpu, numbers in due.items():
            if self.base(gpu, numbers) is None:
                await self._make_alone(maker, gpu, why)

    async def _make_alone(self, maker: Maker, gpu: GPUUID, why: str) -> None:
        try:
            self._contents[gpu] = await maker.generate(gpu)
        except errors.TemporaryError as error:
            self._faults[gpu] = why if str(error) == why else f"{why}; for this GPU alone: {error}"
