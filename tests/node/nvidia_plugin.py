"""NVIDIA's own device plugin on the node, on stand-in GPUs, and pods that ask it for whole GPUs."""

from contextlib import suppress
from typing import Final

from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.node import parts
from node import driver_root
from node.tenants import CHECKPOINT, Tenants

NAME: Final = "nvidia-device-plugin"
RESOURCE: Final = "nvidia.com/gpu"
SECONDS: Final = 60


class Plugin:
    """The plugin of the node that these tenants have."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants, self._cluster, self._node = tenants, tenants.cluster, tenants.gpus.node

    @property
    def offered(self) -> int:
        """How many GPUs the scheduler may give away."""
        return self._node.allocatable(RESOURCE)

    def start(self) -> None:
        """Start it, and return when the scheduler may give its GPUs away."""
        argv = (
            driver_root.programs()[NAME],
            "--device-discovery-strategy=nvml",
            "--mig-strategy=none",
            f"--kubelet-socket={parts.KUBELET_DIRECTORY}/device-plugins/kubelet.sock",
        )
        self._cluster.start_process(NAME, argv, env=self._tenants.gpus.environment)
        count = len(self._tenants.gpus.state.gpus())
        waiting.wait_until(lambda: self.offered == count, f"{count} of {RESOURCE}: {self._cluster.log(NAME)}", SECONDS)

    def kill(self) -> None:
        """End it as a crash would; returns when the scheduler knows."""
        self._cluster.kill(NAME)
        waiting.wait_until(lambda: self.offered == 0, f"no {RESOURCE}", SECONDS)

    def remove(self) -> None:
        """End it, and let kubelet forget it at once: by itself kubelet waits five minutes for it to come back.

        No pod has a device any more.
        """
        if NAME in {each.name for each in self._cluster.status()}:
            self._cluster.stop_process(NAME)
        self._cluster.kill(parts.KUBELET)
        CHECKPOINT.unlink()
        nothing = {"capacity": {RESOURCE: None}, "allocatable": {RESOURCE: None}}
        self._cluster.client.patch(f"{self._node.path}/status", {"status": nothing})
        self._node.start_kubelet()

    def create(self, name: str) -> Json:
        """A pod that asks for one GPU; it shows which it got, and stays."""
        template = Tenants.template(0, script="true", schedulerName="default-scheduler")
        (container,) = template["spec"]["containers"]
        container["command"] = ["sh", "-c", "echo gpu=$NVIDIA_VISIBLE_DEVICES; exec sleep 100000"]
        container["resources"] = {"limits": {RESOURCE: "1"}}
        template["metadata"]["name"] = name
        return self._tenants.client.create(self._tenants.pods(), {"apiVersion": "v1", "kind": "Pod"} | template)

    def gpu_of(self, name: str) -> str:
        """The GPU that a pod got, once it runs."""
        found: list[str] = []

        def told(pod: Json) -> bool:
            with suppress(IndexError, FileNotFoundError):
                found[:] = [line.partition("=")[2] for line in self._tenants.lines(pod) if line.startswith("gpu=")]
            return bool(found)

        self._tenants.wait(name, "has a GPU", told, seconds=SECONDS)
        return found[0]
