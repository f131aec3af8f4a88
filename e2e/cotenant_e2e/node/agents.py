"""Cotenant's processes on a real node, whose GPUs are stand-ins: driver, MPS daemons, agent.

The agent and the MPS daemons are the programs that are shipped, run as root as their DaemonSets would run them; the
driver, its library and NVIDIA's MPS control program are stand-ins and say so.
"""

import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import configuration, installation, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.node import machine, parts
from cotenant_e2e.node.real import Node
from cotenant_e2e.processes import Process
from cotenant_standin import building, cdi, mps_control, state
from cotenant_standin.state import Model, State

DRIVER: Final = "stand-in-driver"
MPS_DAEMONS: Final = "cotenant-mps-daemons"
AGENT: Final = "cotenant-node-agent"
SERVICES: Final = (DRIVER, MPS_DAEMONS, AGENT)
"""In the order in which they start; none needs that order."""

CLIENT_IMAGE: Final = "localhost/cuda-client:1"
CLIENT_USER: Final = {"runAsUser": 65534, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The securityContext of a container of that image, which names no user."""
"""Busybox, and `cuda-client`: a stand-in for a CUDA program, which says in one line what limits it really has."""
STANDIN: Final = Path("/run/cotenant-standin")
MPS_ROOT: Final = Path("/run/cotenant/mps")
READY_SECONDS = 60


@dataclass(frozen=True)
class GPUs:
    """The stand-in GPUs of a node, and what is run for them. `metrics_port`: of the agent, on loopback."""

    node: Node
    metrics_port: int

    @property
    def state(self) -> State:
        """What the GPUs are and do."""
        return State(STANDIN)

    @property
    def agent_state(self) -> Path:
        """What the agent keeps over restarts and reboots."""
        return self.node.layout.folder / "agent"

    @property
    def environment(self) -> dict[str, str]:
        """Where the stand-ins are found before anything of NVIDIA's."""
        programs = self.node.layout.folder / "standin"
        return {
            state.FOLDER_VARIABLE: str(STANDIN),
            "LD_LIBRARY_PATH": f"{building.nvml().parent}:{building.cuda().parent}",
            "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(configuration.REPOSITORY / "e2e"),
        }

    def make(self, models: Sequence[Model]) -> None:
        """Put the GPUs into the machine, and what NVIDIA's packages would install."""
        state.create(STANDIN, models, seed=self.node.name)
        programs = self.node.layout.folder / "standin"
        programs.mkdir(exist_ok=True)
        mps_control.install(programs)
        self.write_base_specification()
        self.add_client_image()

    def add_client_image(self) -> None:
        """Give containerd the image of the stand-in's CUDA program."""
        client = building.cuda_client()
        self.node.add_image(CLIENT_IMAGE, more={"bin/cuda-client": str(client)})

    def write_base_specification(self) -> None:
        """NVIDIA's CDI specification, which its service writes at each boot."""
        machine.CDI.mkdir(parents=True, exist_ok=True)
        cdi.write(self.state, machine.CDI)

    def start(self) -> None:
        """Start everything; returns when the node offers its shares."""
        self.start_driver()
        self.start_mps_daemons()
        self.start_agent()
        self.wait_until_offered(names.HUNDREDTHS * len(self.state.gpus()))

    def start_driver(self) -> Process:
        """Start the stand-in driver; returns when it serves."""
        cluster = self.node.cluster
        process = cluster.start_process(
            DRIVER, (sys.executable, "-m", "cotenant_standin.driver", STANDIN), env=self.environment
        )
        socket = STANDIN / "driver.sock"
        waiting.wait_until(lambda: socket.exists() or not process.alive(), f"{socket}", READY_SECONDS)
        return process

    def start_mps_daemons(self) -> Process:
        """Start them; whoever needs one waits for it."""
        argv = (installation.COTENANT, "mps-daemons", "--mps-root", MPS_ROOT)
        return self.node.cluster.start_process(MPS_DAEMONS, argv, env=self.environment)

    def start_agent(
        self, environment: Mapping[str, str] = MappingProxyType({}), flags: Mapping[str, object] = MappingProxyType({})
    ) -> Process:
        """Start the agent with the token of its account, bound to the node; it need not be ready yet.

        `environment`, `flags`: in addition to the usual.
        """
        cluster, node = self.node.cluster, self.node.name
        kubeconfig = installation.kubeconfig_of(
            cluster, f"node-agent-{node}", names.NODE_AGENT_ACCOUNT, bound_node=node
        )
        usual: dict[str, object] = {
            "--node": node,
            "--namespace": names.RELEASE_NAMESPACE,
            "--kubeconfig": kubeconfig,
            "--state-dir": self.agent_state,
            "--kubelet-dir": parts.KUBELET_DIRECTORY,
            "--cdi-dir": machine.CDI,
            "--mps-root": MPS_ROOT,
            "--metrics-address": f"127.0.0.1:{self.metrics_port}",
        }
        words = [str(word) for pair in (*usual.items(), *flags.items()) for word in pair]
        argv: list[str | Path] = [installation.COTENANT, "node-agent", *words]
        return cluster.start_process(AGENT, argv, env=self.environment | as_shipped() | dict(environment))

    # --- what happens to the node

    def shut_down(self) -> None:
        """Do the first half of a reboot: see `Node.shut_down`."""
        self.node.shut_down(SERVICES)

    def boot(self) -> None:
        """Do the second half: the services come back after kubelet, as their DaemonSets' pods would."""
        self.node.boot()
        self.add_client_image()
        self.write_base_specification()
        for name in SERVICES:
            self.node.cluster.restart(name)

    @contextmanager
    def disk_that_hangs(self) -> Iterator[None]:
        """For the block the agent's ledger gets onto the disk, and the agent does not learn of it.

        It is another agent at the beginning and another one at the end.
        """
        hangs = self.agent_state / building.DISK_HANGS
        self.node.cluster.kill(AGENT)
        self.start_agent({"LD_PRELOAD": str(building.disk())})
        self.wait_until_offered(names.HUNDREDTHS * len(self.state.gpus()))
        hangs.touch()
        try:
            yield
        finally:
            hangs.unlink()
            self.node.cluster.kill(AGENT)
            self.start_agent()

    def forget_health(self) -> None:
        """Let the agent find all GPUs as if it had never seen them; grants stay."""
        self.node.cluster.kill(AGENT)
        (self.agent_state / "health.json").unlink(missing_ok=True)
        self.start_agent()

    # --- what the node says

    def object(self) -> Json:
        """Return the GPUNode; empty before there is one."""
        path = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION, name=self.node.name)
        return self.node.cluster.client.find(path) or {}

    def status(self) -> Json:
        """Return the GPUNode's status; empty before there is one."""
        return dict(self.object().get("status") or {})

    def gpu(self, index: int) -> Json:
        """One GPU of the status; empty before there is one."""
        return next((gpu for gpu in self.status().get("gpus", ()) if gpu["index"] == index), {})

    def ready(self) -> tuple[str, str]:
        """Status and reason of the GPUNode's condition `Ready`."""
        conditions = self.status().get("conditions") or []
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "Ready"), ("", ""))

    def calls(self, method: str, result: str) -> float:
        """Return how many calls of kubelet the agent has answered so.

        Raises:
            OSError: the agent does not answer.
        """
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        wanted = ("_duration_seconds_count{", f'"{method}"', f'"{result}"')
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(word in line for word in wanted))

    def clients(self) -> frozenset[int]:
        """PIDs of the MPS clients of all GPUs, as the host counts."""
        return frozenset(pid for gpu in self.state.gpus() for pid in gpu.mps_processes())

    def devices(self, gpu: str) -> frozenset[str]:
        """Return what a container with this GPU alone sees in /dev."""
        return frozenset({f"nvidia{self.state.by_uuid(gpu).index}"})

    def devices_but(self, gpu: str) -> frozenset[str]:
        """Return what such a container must not see there: every other GPU's."""
        return frozenset().union(*(self.devices(each.uuid) for each in self.state.gpus() if each.uuid != gpu))

    def wait_until_offered(self, shares: int) -> None:
        """Return when the scheduler may give away so many hundredths, and the agent is ready."""

        def offered() -> bool:
            process = self.node.cluster.process(AGENT)
            if not process.alive():
                raise waiting.NotReadyError(f"the agent ended: {self.node.cluster.log(AGENT)}")
            # What Node and GPUNode say may be older than this process.
            answers = clients.answers(f"http://127.0.0.1:{self.metrics_port}/readyz")
            return answers and self.node.allocatable(names.GPU_SHARE) == shares and self.ready()[0] == "True"

        waiting.wait_until(offered, f"{shares} hundredths at {self.node.name}", READY_SECONDS)


def as_shipped() -> dict[str, str]:
    """Return the agent's environment as its DaemonSet sets it, but for what NVIDIA's container toolkit reads."""
    daemon_set = yaml.safe_load((installation.MANIFESTS / "node" / "node-agent.yaml").read_text())
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    written = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    return {name: value for name, value in written.items() if not name.startswith("NVIDIA_")}


def add_to(node: Node, models: Sequence[Model]) -> GPUs:
    """Give a node these GPUs and start what serves them; returns when its shares are offered."""
    node.cluster.client.patch(node.path, {"metadata": {"labels": {names.GPU_NODE_LABEL: "true"}}})
    gpus = GPUs(node, node.cluster.free_port(AGENT))
    gpus.make(models)
    gpus.start()
    return gpus
