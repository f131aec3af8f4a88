"""A simulated agent against an API server and a clock in memory."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from cotenant_api import errors, names
from cotenant_api.names import GPUUID, GPUModel, Namespace, PodUID
from cotenant_deviceplugin.agent import Agent, GPUs, Identity
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.kube import cluster, stores
from cotenant_deviceplugin.retry import Retry
from cotenant_deviceplugin.simulated import config, models, process
from cotenant_deviceplugin.simulated import gpus as simulated
from deviceplugin import fakes

NODE = cluster.node_path(fakes.NODE)
GPUNODE = cluster.gpunode_path(fakes.NODE)
STATUS = f"{GPUNODE}/status"
LEASE = cluster.lease_path(fakes.NODE, Namespace(names.RELEASE_NAMESPACE))
LEASES = LEASE.rpartition("/")[0]
PODS = "/api/v1/pods"
POD = f"{fakes.POD_PATH}/train"
LOST = errors.TemporaryError("connection reset", delay_seconds=0)
GPUS = 2
Started = Callable[[], AbstractAsyncContextManager[Agent]]
"""Starts one for a block; every time it is a new process of the same node."""


def tenants(api: fakes.FakeCluster, gpu: int = 0) -> list[str]:
    """Names of the pods that the agent has published as tenants of a GPU."""
    return [tenant["pod"] for tenant in api.status()["gpus"][gpu]["tenants"]]


@asynccontextmanager
async def _running(agent: Agent) -> AsyncIterator[None]:
    """Run an agent for the block, and kill it as by SIGKILL: nothing is tidied up."""
    task = asyncio.create_task(agent.run())
    await fakes.settled()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def started(api: fakes.FakeCluster, clock: fakes.FakeClock) -> AsyncIterator[Agent]:
    """One that runs; at the end it is killed."""
    configured = config.SimulatedAgent(
        node=fakes.NODE, gpu_model=GPUModel("Tesla-T4"), gpus=GPUS, kubeconfig=Path("unused")
    )
    retry = Retry(clock, random.Random(1), logging.getLogger("test"))  # noqa: S311
    agent = process.assembled(configured, Namespace(names.RELEASE_NAMESPACE), api=api, retry=retry)
    async with _running(agent):
        yield agent


class LateDriver:
    """Hardware with one GPU whose driver comes late, and which answers when the test lets it."""

    simulated = False

    def __init__(self) -> None:
        self.there = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.owners: dict[int, PodUID] = {}

    async def driver(self) -> hardware.Driver:
        """Its versions, once it is there."""
        if not self.there:
            raise errors.TemporaryError("libnvidia-ml.so.1 is not there", delay_seconds=5)
        return hardware.Driver(driver_version="600.1", cuda_version="13.4")

    async def devices(self) -> tuple[hardware.Device, ...]:
        """One GPU."""
        return simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=1)

    async def usage(self) -> dict[GPUUID, hardware.Usage]:
        """Nothing is used."""
        await self.answers.wait()
        return {}

    def pod_of(self, pid: int) -> PodUID | None:
        """Whose a process is."""
        return self.owners.get(pid)


@asynccontextmanager
async def looking_at(gpus: LateDriver, api: fakes.FakeCluster, clock: fakes.FakeClock) -> AsyncIterator[Agent]:
    """An agent with this hardware; at the end it is killed."""
    retry = Retry(clock, random.Random(1), logging.getLogger("test"))  # noqa: S311
    identity = Identity(fakes.NODE, Namespace(names.RELEASE_NAMESPACE), "1")
    agent = Agent(identity, api, gpus=GPUs(gpus, gpus), pods=stores.Pods(), retry=retry)
    async with _running(agent):
        yield agent
