"""One GPU node of the world: the machine, its agent and its kubelet, and the objects that stand for it."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from api_server import handlers, pods, store
from cotenant_api import names
from cotenant_api.names import GPUUID, NodeName
from cotenant_extender.kube import pods as paths
from cotenant_extender.kube import transport
from extender import builders
from simulation import agents, election, kubelets, machines, network, processes

Object = dict[str, Any]


class World(Protocol):
    """What a node needs of the world."""

    network: network.Network
    handling: handlers.Handlers
    objects: store.Store

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call something in no process."""

    def say(self, text: str) -> None:
        """For the history."""

    def joined(self, node: str) -> None:
        """A node is there."""


class Site:
    """One node.

    Attributes:
        machine: what really is there.
    """

    def __init__(self, world: World, name: str, rng: random.Random, *, gpus: int, model: str) -> None:
        self.world, self.name, self._rng = world, name, rng
        uuids = tuple(GPUUID(builders.gpu(name, index)) for index in range(gpus))
        self.machine = machines.Machine(NodeName(name), uuids, model)
        self._agent: agents.Agent | None = None
        self.agent_process: processes.Process | None = None
        self.agent_link: network.Link | None = None
        self.kubelet_process: processes.Process | None = None
        self.kubelet_link: network.Link | None = None

    def start(self) -> None:
        """The node joins the cluster."""
        self.machine.on = True
        node = builders.node(self.name, gpus=len(self.machine.gpus))
        self._request("POST", paths.NODES, node)
        self.world.joined(self.name)
        self.start_agent()
        self.start_kubelet()

    def start_agent(self) -> None:
        """Another agent process."""
        if not self.machine.on:
            return
        process = processes.Process(asyncio.get_running_loop(), f"{self.name}/agent")
        self.agent_process = process
        self.agent_link = self.world.network.link(process.name, self._rng)
        self._agent = agents.Agent(self.machine, self.agent_link, process)
        process.start(self._agent.run())
        self.offer(len(self.machine.gpus) * names.HUNDREDTHS)
        self.world.say(f"{process.name} starts")

    def kill_agent(self) -> None:
        """As by SIGKILL; kubelet withdraws what it advertised."""
        process = self.agent_process
        if self.agent_link is not None:
            self.agent_link.disconnect()
        if process is not None:
            process.kill()
        self.world.later(1.0, lambda: self.offer(0) if self.agent_process is process else None)

    def start_kubelet(self) -> None:
        """Another kubelet process."""
        if not self.machine.on:
            return
        process = processes.Process(asyncio.get_running_loop(), f"{self.name}/kubelet")
        self.kubelet_process = process
        self.kubelet_link = self.world.network.link(process.name, self._rng)
        kubelet = kubelets.Kubelet(self.machine, self.kubelet_link, process, agent=self._present, rng=self._rng)
        process.start(kubelet.run())
        self.world.say(f"{process.name} starts")

    def kill_kubelet(self) -> None:
        """As by SIGKILL; containers go on."""
        if self.kubelet_link is not None:
            self.kubelet_link.disconnect()
        if self.kubelet_process is not None:
            self.kubelet_process.kill()

    def lose(self) -> None:
        """The machine is lost; later its objects go, and the pods that were bound to it."""
        self.machine.lose_power()
        self.kill_agent()
        self.kill_kubelet()
        self.world.later(self._rng.uniform(0.5, 5.0), self._remove)

    def offer(self, share: int) -> None:
        """What kubelet advertises."""
        change = {"status": {"allocatable": {names.GPU_SHARE: str(share)}}}
        self._request("PATCH", f"{paths.NODES}/{self.name}/status", change)

    def cordon(self, *, cordoned: bool) -> None:
        """An admin cordons the node, or takes that back."""
        change = {"spec": {"unschedulable": True if cordoned else None}}
        self._request("PATCH", f"{paths.NODES}/{self.name}", change)

    def sicken(self, uuid: GPUUID, *, sick: bool) -> None:
        """A GPU breaks or is whole again."""
        (self.machine.sick.add if sick else self.machine.sick.discard)(uuid)
        if self._agent is not None and self.agent_process is not None and self.agent_process.alive:
            self._agent.changed()

    def _remove(self) -> None:
        """The Node goes, what it owned, and its pods."""
        if self.machine.on:
            return
        self._request("DELETE", f"{paths.NODES}/{self.name}", {})
        self._request("DELETE", f"{paths.GPUNODES}/{self.name}", {})
        self._request("DELETE", f"{election.LEASES}/{names.AGENT_LEASE_PREFIX}{self.name}", {})
        for (namespace, name), value in list(self.world.objects.objects[pods.PODS].items()):
            if value["spec"].get("nodeName") == self.name:
                self._request("DELETE", paths.pod_path(namespace, name), {"gracePeriodSeconds": 0})  # type: ignore[arg-type]

    def _present(self) -> tuple[agents.Agent, processes.Process] | None:
        if self._agent is None or self.agent_process is None or not self.agent_process.alive:
            return None
        return self._agent, self.agent_process

    def _request(self, method: str, path: str, body: Object) -> None:
        kind = transport.MERGE_PATCH if method == "PATCH" else transport.JSON
        self.world.handling.answer(transport.Request(method, path, orjson.dumps(body), kind))
