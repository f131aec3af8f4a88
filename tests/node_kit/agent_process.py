"""`cotenant node-agent` as the process that it is, between a kubelet, an API server and stand-in GPUs.

`python -m node_kit.agent_process [SECONDS]` weighs it: memory and idle CPU.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cotenant_deviceplugin.kube import cluster
from cotenant_standin import building, cdi, state
from deviceplugin import fakes
from node_kit import gpu_machine, http_cluster, quick
from node_kit.kubelet_sockets import SocketKubelet

_TICKS = os.sysconf("SC_CLK_TCK")


class AgentProcess:
    """The process and everything around it."""

    def __init__(self, machine: gpu_machine.Machine) -> None:
        self.machine = machine
        self.folder = machine.folder
        self.api = fakes.FakeCluster()
        self.kubelet = SocketKubelet(self.folder / "kubelet", random.Random(1), quick.QuickClock())  # noqa: S311
        self.kubeconfig = self.folder / "agent.conf"
        self.log = self.folder / "agent.log"
        (self.folder / "kubelet").mkdir()
        (self.folder / "cdi").mkdir()
        cdi.write(machine.state, self.folder / "cdi")
        node = fakes.node()
        node["status"] = {"nodeInfo": {"containerRuntimeVersion": "containerd://2.3.7"}}
        self.api.put(cluster.node_path(fakes.NODE), node)

    def command(self, *more: str) -> list[str]:
        """The agent's command line."""
        flags = {
            "--node": fakes.NODE,
            "--kubeconfig": self.kubeconfig,
            "--state-dir": self.folder / "state",
            "--kubelet-dir": self.folder / "kubelet",
            "--cdi-dir": self.folder / "cdi",
            "--mps-root": self.machine.mps_root,
            "--mps-control": self.machine.program[0],
            "--nvml": building.nvml(),
            "--cuda": building.cuda(),
            "--metrics-address": "127.0.0.1:0",
        }
        words = [str(word) for pair in flags.items() for word in pair]
        return [str(Path(sys.executable).with_name("cotenant")), "node-agent", *words, *more]

    def start(self, *more: str) -> "subprocess.Popen[bytes]":
        """Start it; its log is a file."""
        with self.log.open("ab") as log:
            return subprocess.Popen(self.command(*more), env=self.machine.environment(), stdout=log, stderr=log)

    def start_daemons(self) -> "subprocess.Popen[bytes]":
        """Start `cotenant mps-daemons`, with the agent's log."""
        cotenant = str(Path(sys.executable).with_name("cotenant"))
        flags = ["--mps-root", str(self.machine.mps_root), "--nvml", str(building.nvml())]
        command = [cotenant, "mps-daemons", *flags, "--control", *self.machine.program]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, env=self.machine.environment(), stdout=log, stderr=log)

    def url(self) -> str:
        """Of its HTTP side, once it has told."""
        told = [line for line in self.log.read_text().splitlines() if "metrics at " in line]
        return told[-1].rpartition("metrics at ")[2].partition("/metrics")[0]

    def ready(self) -> bool:
        """Whether the GPUNode says so."""
        found = self.api.objects.get(cluster.gpunode_path(fakes.NODE), {}).get("status", {}).get("conditions", ())
        return any(each["status"] == "True" for each in found)

    def gpu(self) -> dict[str, Any]:
        """The first GPU as it is published."""
        found: dict[str, Any] = self.api.status()["gpus"][0]
        return found


@asynccontextmanager
async def around(models: Sequence[state.Model] = (state.H200,), *, daemons: bool = True) -> AsyncIterator[AgentProcess]:
    """Everything but the agent. `daemons`: with the control daemons of MPS."""
    with gpu_machine.started(models) as machine:
        made = AgentProcess(machine)
        for index in range(len(models) if daemons else 0):
            await asyncio.to_thread(machine.control_daemon, index)
        await made.kubelet.begin()
        async with http_cluster.serving(made.api, made.kubeconfig):
            try:
                yield made
            finally:
                await made.kubelet.end()


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, children = (sum(int(value) for value in pair) for pair in (fields[11:13], fields[13:15]))
    return own / _TICKS, children / _TICKS


def resident_mib(pid: int) -> float:
    """Memory that it holds now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def weigh(seconds: float) -> None:
    """Print what an idle agent costs."""
    async with around((state.H200,) * 4) as made:
        process = made.start()
        try:
            await quick.until(made.ready)
            await asyncio.sleep(20)
            before = cpu_seconds(process.pid)
            await asyncio.sleep(seconds)
            after = cpu_seconds(process.pid)
            own, children = ((now - then) / seconds * 100 for then, now in zip(before, after, strict=True))
            print(f"4 stand-in GPUs, idle for {seconds:g} s, Python {sys.version.split()[0]}:")
            print(f"{resident_mib(process.pid):.0f} MiB resident, {own:.2f} % of a core by itself", end="")
            print(f", {children:.2f} % by the stand-in of nvidia-cuda-mps-control that it calls")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


if __name__ == "__main__":
    asyncio.run(weigh(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
