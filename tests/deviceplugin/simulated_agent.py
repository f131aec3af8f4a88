"""A simulated agent against an API server and a clock in memory."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from cotenant_api import errors, names
from cotenant_api.names import GPUModel, Namespace
from cotenant_deviceplugin.agent import Agent
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.retry import Retry
from cotenant_deviceplugin.simulated import config, process
from deviceplugin import fakes

GPUNODE = cluster.gpunode_path(fakes.NODE)
STATUS = f"{GPUNODE}/status"
LEASE = cluster.lease_path(fakes.NODE, Namespace(names.RELEASE_NAMESPACE))
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
async def started(api: fakes.FakeCluster, clock: fakes.FakeClock) -> AsyncIterator[Agent]:
    """One that runs; at the end it is killed as by SIGKILL: nothing is tidied up."""
    configured = config.SimulatedAgent(
        node=fakes.NODE, gpu_model=GPUModel("Tesla-T4"), gpus=GPUS, kubeconfig=Path("unused")
    )
    retry = Retry(clock, random.Random(1), logging.getLogger("test"))  # noqa: S311
    agent = process.assembled(configured, Namespace(names.RELEASE_NAMESPACE), api=api, retry=retry)
    task = asyncio.create_task(agent.run())
    await fakes.settled()
    try:
        yield agent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
