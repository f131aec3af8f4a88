"""Keeps what is known of each GPU's health: takes evidence, remembers it on disk, tells of changes.

What follows from evidence is decided in `gpus.health`. A record that cannot be read is told of and never taken for
good.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.gpus import hardware, health
from cotenant_deviceplugin.gpus.evidence import Canary, Evidence, Record
from cotenant_deviceplugin.retry import Log

FILE = "health.json"
BROKEN = "health.json.broken"
"""While it is there, a GPU without a record is one whose record may have been lost."""


class Keeper:
    """The records of one node.

    Args:
        machine: the rules.
        folder: where records outlive the agent and reboots.
        clock: the time.
        log: gets a line for each change of health.
        boot: of this boot of the machine; None: unknown.

    Attributes:
        changed: is called when a GPU's health, reason or fault has changed.
    """

    def __init__(
        self, machine: health.Machine, folder: Path, *, clock: Clock, log: Log, boot: str | None = None
    ) -> None:
        self.changed: Callable[[], None] = _nobody
        self._machine, self._path, self._clock, self._log, self._boot = machine, folder / FILE, clock, log, boot
        self._broken = folder / BROKEN
        self._records: dict[GPUUID, Record] = {}
        self._absent: dict[GPUUID, Record] = {}
        """Of GPUs that the driver does not list now: one may be lost, and come back as it was."""
        self._xids: dict[GPUUID, list[int]] = {}
        self._canaries: dict[GPUUID, Canary] = {}
        self._evidence: dict[GPUUID, Evidence] = {}
        self._stored: Mapping[GPUUID, Record] = {}
        self._storing = asyncio.Lock()

    @property
    def records(self) -> Mapping[GPUUID, Record]:
        """As they stand."""
        return self._records

    async def know(self, gpus: Iterable[GPUUID]) -> None:
        """GPUs of the node; what was stored of them is taken up. Raises TemporaryError."""
        new = [gpu for gpu in gpus if gpu not in self._records]
        if not new:
            return
        known = await self._read()
        now, doubted = self._clock.now().timestamp(), await asyncio.to_thread(self._broken.exists)
        record = health.doubtful(now=now) if doubted else health.unexamined(now=now)
        self._records |= {gpu: known.get(gpu, record) for gpu in new}
        self._absent = {gpu: record for gpu, record in known.items() if gpu not in self._records}

    async def _read(self) -> Mapping[GPUUID, Record]:
        """Return what was stored. A file that cannot be read is kept aside. Raises TemporaryError."""
        text = await asyncio.to_thread(files.read, self._path)
        try:
            return {} if text is None else health.read(text)
        except errors.InvalidInputError as error:
            self._log.error(
                "%s cannot be read and is kept as %s, GPUs that are not known must prove themselves: %s",
                self._path,
                self._broken,
                error,
            )
            await asyncio.to_thread(files.replace, self._broken, text or "")
            return {}

    def told(self, event: hardware.XIDEvent) -> None:
        """Take in an XID, to be weighed with the next evidence; without a GPU it is about all."""
        for gpu in self._records if event.uuid is None else (event.uuid,):
            self._xids.setdefault(gpu, []).append(event.xid)

    def wanting(self) -> tuple[GPUUID, ...]:
        """GPUs that wait for a canary."""
        now = self._clock.now().timestamp()
        return tuple(
            gpu
            for gpu, evidence in self._evidence.items()
            if self._machine.wants_canary(self._records[gpu], evidence, now=now)
        )

    def tried(self, gpu: GPUUID, canary: Canary) -> None:
        """Take in how a canary has ended, to be weighed with the next evidence."""
        self._canaries[gpu] = canary

    def waiting(self) -> frozenset[GPUUID]:
        """GPUs of which there are events that have not been weighed."""
        return frozenset(self._xids)

    def weigh(
        self,
        gpu: GPUUID,
        readings: hardware.Readings | None,
        *,
        mps: gpunode.MPS,
        tenants: tuple[PodUID, ...],
        strangers: bool = False,
    ) -> None:
        """Take up what is known of a GPU now."""
        before = self._records.get(gpu)
        if before is None:
            return
        evidence = Evidence(
            readings=readings,
            mps=mps,
            xids=tuple(self._xids.pop(gpu, ())),
            canary=self._canaries.pop(gpu, None),
            tenants=tenants,
            strangers=strangers,
            boot=self._boot,
        )
        self._evidence[gpu] = evidence
        after = self._machine.step(gpu, before, evidence, now=self._clock.now().timestamp())
        self._records[gpu] = after
        if (before.health, before.reason, before.fault) != (after.health, after.reason, after.fault):
            self._log.info("%s is %s%s", gpu, after.health, f": {after.reason}" if after.reason else "")
            self.changed()

    async def store(self) -> None:
        """Have what is known on disk. Raises TemporaryError."""
        async with self._storing:
            known = {**self._absent, **self._records}
            if known != self._stored and self._records:
                await asyncio.to_thread(files.replace, self._path, health.stored(known))
                self._stored = known


def boot_id(path: Path = Path("/proc/sys/kernel/random/boot_id")) -> str | None:
    """Of this boot of the machine; None: the kernel does not tell."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _nobody() -> None:
    """Nobody listens yet."""
