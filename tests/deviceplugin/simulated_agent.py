"""A simulated agent against an API server and a clock in memory."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from cotenant_api import names
from cotenant_api.names import GPUModel, Namespace
from cotenant_deviceplugin.agent import Agent
from cotenant_deviceplugin.retry import Retry
from cotenant_deviceplugin.simulated import config, process
from deviceplugin import fakes

GPUS = 2
Started = Callable[[], AbstractAsyncContextManager[Agent]]
"""Starts one for a block; every time it is a new process of the same node."""


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
