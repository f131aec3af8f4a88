"""A whole node agent in one process: real sockets and files, with hardware, MPS and API server in memory."""

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotenant_api import errors, gpunode, placement
from cotenant_api.names import GPUUID, GPUModel
from cotenant_deviceplugin.binding import toolkit
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.gpus.processes import Processes
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.kubelet import pod_resources
from cotenant_deviceplugin.mps import canaries, clearing, v2
from cotenant_deviceplugin.mps.backend import Edits, Properties, Server
from cotenant_deviceplugin.node.agent import NodeAgent, Outside
from cotenant_deviceplugin.node.settings import Settings
from cotenant_deviceplugin.node.tasks import Tasks
from cotenant_deviceplugin.retry import Retry
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes
from node_kit import kubelet_devices, quick
from node_kit.kubelet_devices import KubeletError
from node_kit.kubelet_sockets import SocketKubelet

NODE = cluster.node_path(fakes.NODE)
SERVER_PID = 900
CONTAINER_UID = "00000000-0000-4000-8000-{:012d}"


class MemoryGPUs:
    """GPUs whose answers a test sets."""

    simulated = False

    def __init__(self, count: int) -> None:
        self.there = True
        self.version = "580.65.06"
        self.listed = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=count)
        self.states = {device.uuid: hardware.Readings() for device in self.listed}
        self.processes: dict[GPUUID, dict[int, int]] = {device.uuid: {} for device in self.listed}
        self.happened: asyncio.Queue[hardware.XIDEvent] = asyncio.Queue()

    def _ask(self) -> None:
        if not self.there:
            raise errors.TemporaryError("the driver is not loaded", delay_seconds=0)

    async def driver(self) -> hardware.Driver:
        """A version."""
        self._ask()
        return hardware.Driver(driver_version=self.version, cuda_version="13.0")

    async def devices(self) -> tuple[hardware.Device, ...]:
        """All of them."""
        self._ask()
        return self.listed

    async def usage(self) -> Mapping[GPUUID, hardware.Usage]:
        """As set."""
        self._ask()
        return {
            gpu: hardware.Usage(
                utilization_percent=10,
                memory_used_mib=sum(held.values()),
                processes=tuple(hardware.Process(pid=pid, memory_mib=used) for pid, used in sorted(held.items())),
            )
            for gpu, held in self.processes.items()
        }

    async def usage_of(self, gpu: GPUUID) -> hardware.Usage:
        """As set."""
        found = (await self.usage()).get(gpu)
        if found is None:
            raise errors.TemporaryError(f"{gpu}: its processes cannot be read", delay_seconds=0)
        return found

    async def readings(self) -> Mapping[GPUUID, hardware.Readings]:
        """As set."""
        self._ask()
        return dict(self.states)

    async def readings_of(self, gpu: GPUUID) -> hardware.Readings | None:
        """As set."""
        return (await self.readings()).get(gpu)

    async def set_compute_mode(self, gpu: GPUUID, mode: hardware.ComputeMode) -> None:
        """At once."""
        self._ask()
        self.states[gpu] = replace(self.states[gpu], compute_mode=mode)

    async def events(self) -> AsyncIterator[hardware.XIDEvent]:
        """What a test puts in."""
        while True:
            yield await self.happened.get()


class MemoryModes(clearing.Modes):
    """What compute modes were before, without a disk."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.kept: dict[GPUUID, hardware.ComputeMode] = {}

    async def read(self, gpu: GPUUID) -> hardware.ComputeMode | None:
        """As kept."""
        return self.kept.get(gpu)

    async def note(self, gpu: GPUUID, mode: hardware.ComputeMode) -> hardware.ComputeMode:
        """Once."""
        return self.kept.setdefault(gpu, mode)

    async def forget(self, gpu: GPUUID) -> None:
        """If there is something."""
        self.kept.pop(gpu, None)


class MemoryMPS:
    """MPS servers that start at once, and whose states a test sets."""

    def __init__(self) -> None:
        self.servers: dict[GPUUID, Server] = {}
        self.daemons = True
        self.terminated: list[int] = []
        self.asked: Counter[GPUUID] = Counter()
        self.silent: dict[GPUUID, asyncio.Event] = {}
        self._inner = v2.MPSv2(Path("/run/cotenant/mps"), cuda_version="13.0")
        self._dirty: set[GPUUID] = set()

    @property
    def properties(self) -> Properties:
        """Of MPS v2."""
        return self._inner.properties

    def put(self, gpu: GPUUID, server: Server) -> None:
        """Have a server in some state."""
        self.servers[gpu] = server
        self._dirty.add(gpu)

    def pid(self, gpu: GPUUID) -> int | None:
        """Of a GPU's server; None: it has none."""
        return self.servers[gpu].pid if gpu in self.servers else None

    def stirred(self, gpu: GPUUID) -> bool:
        """Whether a test has changed it."""
        return gpu in self._dirty

    async def observe(self, gpu: GPUUID) -> Server:
        """As it stands; what its log told is told once."""
        self.asked[gpu] += 1
        if gpu in self.silent:
            await self.silent[gpu].wait()
        self._dirty.discard(gpu)
        seen = self.servers.get(gpu, Server(state=gpunode.MPS.STOPPED, reason="the control daemon has no server"))
        self.servers[gpu] = replace(seen, faults=())
        return seen

    async def answers(self, _: GPUUID) -> bool:
        """Whether there are daemons."""
        return self.daemons

    async def start(self, gpu: GPUUID) -> None:
        """At once, where there are daemons."""
        if not self.daemons:
            raise errors.TemporaryError("no control daemon", delay_seconds=1)
        self.servers[gpu] = Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID)

    async def stop(self, gpu: GPUUID) -> None:
        """At once."""
        self.servers.pop(gpu, None)

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """At once."""
        self.terminated.append(pid)
        seen = self.servers[gpu]
        self.servers[gpu] = replace(seen, clients=tuple(each for each in seen.clients if each != pid))

    def edits(self, gpu: GPUUID, booking: placement.GPUBooking, *, processes: int) -> Edits:
        """As MPS v2."""
        return self._inner.edits(gpu, booking, processes=processes)


class MemoryCanaries:
    """Canaries whose outcome a test sets."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self.ran: list[tuple[GPUUID, bool]] = []
        self.pids: frozenset[int] = frozenset()

    def last(self, _: GPUUID) -> int | None:
        """Return one that lives."""
        return next(iter(self.pids), None)

    async def run(self, gpu: GPUUID, *, server: canaries.Server | None) -> str | None:
        """At once. `ran` says of each whether it was to be a client of MPS."""
        self.ran.append((gpu, server is not None))
        return self.fault


class WholeNode:
    """Everything around one agent. `folder` holds what would be kubelet's, the runtime's and the agent's."""

    def __init__(self, folder: Path, *, gpus: int = 2) -> None:
        self.folder = folder
        self.clock = quick.QuickClock()
        self.api = fakes.FakeCluster()
        self.gpus = MemoryGPUs(gpus)
        self.mps = MemoryMPS()
        self.canaries = MemoryCanaries()
        self.kubelet = SocketKubelet(folder / "kubelet", random.Random(1), self.clock)  # noqa: S311
        self.proc = folder / "proc"
        self.settings = Settings(
            node=fakes.NODE,
            state_dir=folder / "state",
            kubelet_dir=folder / "kubelet",
            cdi_dir=folder / "cdi",
            base_cdi_dirs=(folder / "cdi",),
            driver=toolkit.Places(folder / "driver", toolkit=folder / "toolkit"),
            mps_root=folder / "mps",
        )
        for made in ("kubelet", "state", "cdi", "proc"):
            (folder / made).mkdir(exist_ok=True)
        self.write_base_specification()
        self.put_node("containerd://2.3.7")

    @property
    def first(self) -> GPUUID:
        """The first GPU."""
        return self.gpus.listed[0].uuid

    def put_node(self, runtime: str, **allocatable: str) -> None:
        """The Node, as kubelet and other device plugins make it."""
        node = fakes.node(tainted=True)
        node["status"] = {"nodeInfo": {"containerRuntimeVersion": runtime}, "allocatable": allocatable}
        self.api.put(NODE, node)

    def put_labels(self, **labels: str) -> None:
        """The Node's labels."""
        node = self.api.objects[NODE]
        self.api.put(NODE, {**node, "metadata": {**node["metadata"], "labels": labels}})

    def put_policy(self, **spec: Any) -> None:
        """The PackingPolicy."""
        path = "/apis/cotenant.dev/v1alpha1/packingpolicies/default"
        self.api.put(path, {"metadata": {"name": "default", "generation": 1}, "spec": spec})

    def write_base_specification(self) -> None:
        """NVIDIA's."""
        nodes = {device.uuid: {"path": f"/dev/nvidia{device.minor}"} for device in self.gpus.listed}
        devices = [{"name": uuid, "containerEdits": {"deviceNodes": [node]}} for uuid, node in nodes.items()]
        value = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
        (self.folder / "cdi" / "nvidia.json").write_text(json.dumps(value))

    def run_process(self, pid: int, uid: str | None) -> None:
        """A process of a pod, or of none."""
        (self.proc / str(pid)).mkdir(exist_ok=True)
        path = "/system.slice/ssh" if uid is None else f"/kubepods/burstable/pod{uid}/abc"
        (self.proc / str(pid) / "cgroup").write_text(f"0::{path}\n")

    def end_process(self, pid: int) -> None:
        """It is gone."""
        (self.proc / str(pid) / "cgroup").unlink()
        (self.proc / str(pid)).rmdir()

    def bind(self, number: int = 1, **changes: Any) -> kubelet_devices.Pod:
        """A pod that the extender has bound, as kubelet hears of it."""
        spec = fakes.PodSpec(name=f"p{number}", uid=CONTAINER_UID.format(number), phase="Pending", **changes)
        self.api.put(f"{fakes.POD_PATH}/p{number}", fakes.pod(spec))
        main = kubelet_devices.Container(name="main", request=spec.share)
        return kubelet_devices.Pod(uid=spec.uid, name=spec.name, containers=(main,))

    def specification(self, names: tuple[str, ...]) -> dict[str, Any]:
        """What the one CDI name of a container resolves to; KeyError: to nothing."""
        (name,) = names
        file = self.folder / "cdi" / f"cotenant.dev-share_{name.rpartition('=')[2]}.json"
        if not file.exists():
            raise KeyError(name)
        (device,) = json.loads(file.read_text())["devices"]
        edits: dict[str, Any] = device["containerEdits"]
        return edits

    def condition(self) -> tuple[str, str]:
        """Ready's status and reason."""
        found = self.api.objects.get(cluster.gpunode_path(fakes.NODE), {}).get("status", {}).get("conditions", [{}])[0]
        return found.get("status", ""), found.get("reason", "")

    def gpu(self, index: int = 0) -> dict[str, Any]:
        """A GPU as it is published."""
        found: dict[str, Any] = self.api.status()["gpus"][index]
        return found

    @asynccontextmanager
    async def agent(self) -> AsyncGenerator[NodeAgent, None]:
        """An agent at work; at the end it is killed as by SIGKILL."""
        retry = Retry(self.clock, random.Random(1), logging.getLogger("test"))  # noqa: S311
        async with pod_resources.Client(self.settings.kubelet_dir, self.clock) as resources:
            processes = Processes(proc=self.proc)
            outside = Outside(self.api, self.gpus, resources, processes, lambda _: self.mps, self.canaries, self.proc)
            made = NodeAgent(self.settings, outside, retry=retry, version="1")
            task = asyncio.create_task(Tasks(made).run())
            try:
                yield made
            finally:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.result()

    @asynccontextmanager
    async def offering(self) -> AsyncGenerator[NodeAgent, None]:
        """An agent whose shares kubelet offers, all of them."""
        await self.kubelet.begin()
        try:
            async with self.agent() as made, asyncio.timeout(20):
                await self.kubelet.has_tokens(100 * len(self.gpus.listed))
                yield made
        finally:
            await self.kubelet.end()


async def started(node: WholeNode, pod: kubelet_devices.Pod) -> dict[str, str]:
    """Admit a pod and start its container; its environment by CDI."""
    assert await node.kubelet.admit(pod), pod.failure
    async with asyncio.timeout(20):
        while True:
            try:
                names = await node.kubelet.start(pod)
                break
            except KubeletError:
                await asyncio.sleep(0.02)
    node.kubelet.started(pod)
    edits = node.specification(names)
    return dict(line.split("=", 1) for line in edits["env"])


def wanted(node: WholeNode) -> set[gpunode.EvictionReason]:
    """Why the GPUNode has tenants to be evicted."""
    found = (tenant.get("evict") for tenant in node.gpu()["tenants"])
    return {gpunode.EvictionReason(reason) for reason in found if reason is not None}
