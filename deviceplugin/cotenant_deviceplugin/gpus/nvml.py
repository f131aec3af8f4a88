"""The node's GPUs through NVML: hardware.ManagedHardware over nvidia-ml-py.

Each GPU has a thread, in which its calls run one at a time. A question about one GPU waits for that GPU alone; one
about all GPUs takes the last answer of a GPU that is late. What is about the driver has another thread, and so has
waiting for events. Nothing is decided here, and no setting is changed but the compute mode.

The driver knows processes by the PIDs of the host: the agent needs hostPID to find out whose they are. A client of MPS
is listed with the memory that it holds; its work shows as the MPS server's, so utilization is the GPU's alone
(NVIDIA's MPS documentation). What the server itself holds is listed as a process of its own.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import calls, events, hardware, latest, models, session

T = TypeVar("T")

_UNTOLD = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
_MODE_NUMBERS = {mode: number for number, mode in models.COMPUTE_MODES.items()}
_MEMORY_V2 = pynvml.nvmlMemory_v2
CALL_SECONDS = 20.0
"""A driver that has not answered for so long hangs; it may never answer."""
GPU_SECONDS = 5.0
"""The same of one GPU. It is Suspect then, and whoever asked about it alone has waited."""
LATE_SECONDS = 1.0
"""So long a question about all GPUs waits for one of them that has answered before."""


class NVML:
    """The GPUs of this machine.

    A GPU that is lost stays among `devices` as long as the driver's session lasts, with the fault in its readings.

    Args:
        library: path of `libnvidia-ml.so.1`; None: where the dynamic linker finds it.
        timing: of the thread that waits for events.
        call_seconds: how long a question about the driver may take.
        gpu_seconds: how long one about a GPU may take.
        late_seconds: how long one about all GPUs waits for a GPU that has answered before.
    """

    def __init__(
        self,
        *,
        library: Path | None = None,
        timing: events.Timing = events.DEFAULT_TIMING,
        call_seconds: float = CALL_SECONDS,
        gpu_seconds: float = GPU_SECONDS,
        late_seconds: float = LATE_SECONDS,
    ) -> None:
        self._gpu_seconds, self._late_seconds = gpu_seconds, late_seconds
        self._session = session.Session(library=library)
        self._timing = timing
        self._calls = calls.Calls("nvml", seconds=call_seconds)
        self._of_gpus: dict[int, calls.Calls] = {}
        """By index."""
        self._devices: dict[int, hardware.Device] = {}
        self._of_session = 0
        self._enumerated = self._enumeration()
        self._used = latest.Latest(self._usage_answer, seconds=late_seconds)
        self.untold: dict[str, str] = {}
        """What this driver does not tell, by function, and why."""

    @property
    def simulated(self) -> bool:
        """Whether the library is a stand-in; False until the driver has answered once."""
        return self._session.simulated

    async def driver(self) -> hardware.Driver:
        """Return the driver's versions."""
        return await self._call(_driver)

    async def devices(self) -> tuple[hardware.Device, ...]:
        """All GPUs that have been seen in this session of the driver, by index."""
        number, count = await self._call(lambda: (self._session.number, session.system(pynvml.nvmlDeviceGetCount)))
        self._forget_before(number)
        found = await self._enumerated.of(range(count))
        self._devices |= {index: each for index, each in found.items() if isinstance(each, hardware.Device)}
        self.untold |= {f"GPU {index}": str(each) for index, each in found.items() if isinstance(each, Exception)}
        return tuple(self._devices[index] for index in sorted(self._devices) if index < count)

    async def usage(self) -> Mapping[GPUUID, hardware.Usage]:
        """Return what each GPU does now, or did last where it is late; a GPU that cannot be read is absent."""
        used = await self._used.of([device.uuid for device in (await self._known()).values()])
        self.untold |= {f"usage of {gpu}": str(each) for gpu, each in used.items() if isinstance(each, Exception)}
        return {gpu: each for gpu, each in used.items() if isinstance(each, hardware.Usage)}

    async def usage_of(self, gpu: GPUUID) -> hardware.Usage:
        """Return what one GPU does now, and wait for no other. Raises TemporaryError where it cannot be read."""
        answer = await self._usage_answer(gpu)
        if isinstance(answer, hardware.Usage):
            return answer
        message = f"{gpu}: its processes cannot be read: {answer or 'the driver does not list it'}"
        raise errors.TemporaryError(message, delay_seconds=session.RETRY_SECONDS)

    async def readings(self) -> Mapping[GPUUID, hardware.Readings]:
        """Return what each GPU says of itself; waits for all of them."""
        gpus = [device.uuid for device in (await self._known()).values()]
        found = await asyncio.gather(*map(self.readings_of, gpus))
        return {gpu: each for gpu, each in zip(gpus, found, strict=True) if each is not None}

    async def readings_of(self, gpu: GPUUID) -> hardware.Readings | None:
        """Return what one GPU says of itself, and wait for no other; None: the driver does not list it."""
        index = await self._index(gpu)
        if index is None:
            return None
        answer = await self._answer(index, functools.partial(self._readings, gpu))
        return hardware.Readings(fault=f"NVML: {answer}") if isinstance(answer, Exception) else answer

    async def set_compute_mode(self, gpu: GPUUID, mode: hardware.ComputeMode) -> None:
        """Set it; needs root and, in a container, CAP_SYS_ADMIN: the driver asks the kernel.

        Raises:
            TemporaryError: the driver refuses, with its words.
        """

        def work() -> None:
            try:
                pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(gpu), _MODE_NUMBERS[mode])
            except pynvml.NVMLError as error:
                _raise_if_away(error)
                message = f"the driver refuses compute mode {mode} for {gpu}: {error}"
                raise errors.TemporaryError(message, delay_seconds=session.RETRY_SECONDS) from error

        index = next((index for index, device in self._devices.items() if device.uuid == gpu), None)
        await (self._call(work) if index is None else self._of_gpu(index, work))

    async def events(self) -> AsyncIterator[hardware.XIDEvent]:
        """Critical events from now on, for ever. Only one that iterates at a time."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[hardware.XIDEvent | BaseException] = asyncio.Queue()
        stop = threading.Event()

        def deliver(item: hardware.XIDEvent | BaseException) -> None:
            if not stop.is_set():
                loop.call_soon_threadsafe(arrived.put_nowait, item)

        def broke(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                arrived.put_nowait(error)

        watching = asyncio.create_task(self._watch(deliver, stop))
        watching.add_done_callback(broke)
        try:
            while True:
                item = await arrived.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            # Threads are not waited for: a call of one of them may hang.
            stop.set()
            watching.cancel()

    async def close(self) -> None:
        """Let go of the driver; iteration of `events` has ended."""
        await asyncio.to_thread(self._session.close)
        for each in (self._calls, *self._of_gpus.values()):
            each.close()

    async def _watch(self, deliver: Callable[[hardware.XIDEvent | BaseException], None], stop: threading.Event) -> None:
        """Have each GPU's events waited for in a thread of its own, also of a GPU that comes later."""
        watched = 0
        while True:
            try:
                count = await self._call(lambda: session.system(pynvml.nvmlDeviceGetCount))
            except errors.TemporaryError:
                await asyncio.sleep(self._timing.retry_seconds)
                continue
            for index in range(watched, count):
                watch = events.Watch(self._session, index, deliver=deliver, stop=stop, timing=self._timing)
                name = f"nvml-events-{index}"
                threading.Thread(target=watch.run_to_the_end, args=(deliver,), name=name, daemon=True).start()
            watched = max(watched, count)
            await asyncio.sleep(self._timing.renew_seconds)

    async def _call(self, work: Callable[[], T]) -> T:
        """Ask about the driver."""
        return await self._calls.call(lambda: self._inside(work))

    async def _of_gpu(self, index: int, work: Callable[[], T]) -> T:
        """Ask about one GPU."""
        if index not in self._of_gpus:
            self._of_gpus[index] = calls.Calls(f"nvml-{index}", seconds=self._gpu_seconds)
        return await self._of_gpus[index].call(lambda: self._inside(work))

    async def _answer(self, index: int, work: Callable[[], T]) -> T | Exception:
        """Ask about one GPU; what it refuses, or does not answer, is its own answer.

        Raises DriverAwayError where the driver is away: without one there is nothing to tell of any GPU.
        """
        try:
            return await self._of_gpu(index, work)
        except (pynvml.NVMLError, calls.HangsError) as error:
            return error

    async def _usage_answer(self, gpu: GPUUID) -> hardware.Usage | Exception | None:
        """None: the driver does not list it."""
        index = await self._index(gpu)
        return None if index is None else await self._answer(index, functools.partial(self._usage, gpu))

    def _enumeration(self) -> latest.Latest[int, hardware.Device | Exception]:
        return latest.Latest(
            lambda index: self._answer(index, functools.partial(self._device, index)), seconds=self._late_seconds
        )

    def _inside(self, work: Callable[[], T]) -> T:
        with self._session.used():
            return work()

    def _forget_before(self, number: int) -> None:
        """Forget the devices of earlier sessions of the driver."""
        if number != self._of_session:
            self._devices.clear()
            # Another one: what an index meant before must not be taken for what it means now.
            self._enumerated = self._enumeration()
            self._of_session = number

    async def _known(self) -> Mapping[int, hardware.Device]:
        """As they were last enumerated: reading again what never changes costs more than all that is asked for."""
        self._forget_before(await self._call(lambda: self._session.number))
        return dict(self._devices) or {device.index: device for device in await self.devices()}

    async def _index(self, gpu: GPUUID) -> int | None:
        """Return the place of a GPU among those of this session; None: the driver does not list it."""
        return next((index for index, device in (await self._known()).items() if device.uuid == gpu), None)

    def _device(self, index: int) -> hardware.Device:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = GPUUID(pynvml.nvmlDeviceGetUUID(handle))
        mig = self._told(pynvml.nvmlDeviceGetMigMode, handle)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        return hardware.Device(
            uuid=uuid,
            index=index,
            minor=self._told(pynvml.nvmlDeviceGetMinorNumber, handle),
            model=models.model(pynvml.nvmlDeviceGetName(handle)),
            memory_mib=models.memory_mib(self._memory(handle).total),
            sm_count=models.sm_count(self._told(pynvml.nvmlDeviceGetNumGpuCores, handle), (major, minor)),
            compute_capability=f"{major}.{minor}",
            # A mode that waits for a reset counts already: the GPU would leave its tenants.
            mig=mig is not None and any(mig),
        )

    def _usage(self, gpu: GPUUID) -> hardware.Usage:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu)
        plain = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        shared = self._told(pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle) or ()
        return hardware.Usage(
            utilization_percent=int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            memory_used_mib=models.memory_mib(self._memory(handle).used),
            processes=models.processes(_held(plain), _held(shared)),
        )

    def _readings(self, gpu: GPUUID) -> hardware.Readings:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu)
        number = int(pynvml.nvmlDeviceGetComputeMode(handle))
        rows = self._told(pynvml.nvmlDeviceGetRemappedRows, handle)
        action = self._recovery_action(handle)
        mode = models.compute_mode(number)
        if mode is None:
            return hardware.Readings(fault=f"NVML: unknown compute mode {number}")
        return hardware.Readings(
            compute_mode=mode,
            recovery_action=action,
            remap_pending=None if rows is None else bool(rows[2]),
            remap_failed=None if rows is None else bool(rows[3]),
        )

    def _recovery_action(self, handle: Any) -> hardware.RecoveryAction | None:
        values = self._told(
            lambda device: pynvml.nvmlDeviceGetFieldValues(device, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]), handle
        )
        if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return None
        return models.recovery_action(int(values[0].value.uiVal))

    def _memory(self, handle: Any) -> Any:
        """Version 2 leaves out of `used` what the driver keeps for itself."""
        newer = self._told(lambda device: pynvml.nvmlDeviceGetMemoryInfo(device, version=_MEMORY_V2), handle)
        return pynvml.nvmlDeviceGetMemoryInfo(handle) if newer is None else newer

    def _told(self, function: Callable[[Any], T], handle: Any) -> T | None:
        """None where this GPU or this driver has no such thing."""
        try:
            return function(handle)
        except pynvml.NVMLError as error:
            if error.value not in _UNTOLD:
                raise
            self.untold[getattr(function, "__name__", "?")] = str(error)
            return None


def _driver() -> hardware.Driver:
    version = str(session.system(pynvml.nvmlSystemGetDriverVersion))
    return models.versions(version, int(session.system(pynvml.nvmlSystemGetCudaDriverVersion_v2)))


def _held(entries: Any) -> list[models.Held]:
    return [models.Held(int(entry.pid), entry.usedGpuMemory) for entry in entries]


def _raise_if_away(error: pynvml.NVMLError) -> None:
    """Raise the error where it says that the driver is away.

    A GPU's own trouble is that GPU's; without a driver there is nothing to tell of any.
    """
    if error.value in session.AWAY:
        raise error
