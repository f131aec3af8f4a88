"""The process of `cotenant node-agent`: one per node, until a signal ends it. Ending it ends nothing on the GPUs."""

import asyncio
import contextlib
import functools
import os
import random
import signal
from concurrent import futures
from contextlib import AsyncExitStack

import cotenant_api
from cotenant_api import conditions, errors, exposition, gpunode
from cotenant_deviceplugin.clock import SystemClock
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.gpus.nvml import NVML
from cotenant_deviceplugin.gpus.processes import Processes
from cotenant_deviceplugin.kube import access, client
from cotenant_deviceplugin.kubelet import pod_resources
from cotenant_deviceplugin.mps import canaries, v2
from cotenant_deviceplugin.node import http, liveness, lock
from cotenant_deviceplugin.node.agent import LOG, NodeAgent, Outside
from cotenant_deviceplugin.node.settings import Settings
from cotenant_deviceplugin.node.tasks import Tasks
from cotenant_deviceplugin.publishing import readiness
from cotenant_deviceplugin.retry import Retry

LOCK = "agent.lock"
LEAVE_SECONDS = 3.0
"""How long the end waits for the API server to take the last word ..."""
END_SECONDS = 5.0
"""... how long the agent's work may take to end, once it is told to ..."""
GIVE_BACK_SECONDS = 15.0
"""... and how long it clears up, on a node that is given back; all before kubelet would kill the agent."""
THREADS = 4
"""For files and /proc: asyncio would take up to 32, as there are cores. The driver has threads of its own."""


def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    asyncio.run(_until_told(settings))
    return 0


async def _until_told(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(futures.ThreadPoolExecutor(THREADS, thread_name_prefix="files"))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    serving = asyncio.create_task(_serve(settings, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.wait({serving}, timeout=LEAVE_SECONDS + END_SECONDS + GIVE_BACK_SECONDS)
    serving.cancel()
    await asyncio.wait({serving})
    if not serving.cancelled():
        serving.result()


async def _serve(settings: Settings, stop: asyncio.Event) -> None:
    """Hold the node's lock, then be its agent."""
    clock = SystemClock()
    try:
        holding = lock.held(settings.state_dir / LOCK, clock=clock, log=LOG)
        async with holding, AsyncExitStack() as ends:
            api = client.KubernetesCluster(_source(settings))
            ends.push_async_callback(api.close)
            gpus = NVML(library=settings.nvml)
            ends.push_async_callback(gpus.close)
            resources = await ends.enter_async_context(pod_resources.Client(settings.kubelet_dir, clock))
            # Seeded by the node, so that agents started together do not try again together.
            retry = Retry(clock, random.Random(settings.node), LOG)  # noqa: S311
            version = cotenant_api.__version__
            mps, proofs = functools.partial(_mps, settings), canaries.Canaries(settings.mps_root, library=settings.cuda)
            outside = Outside(api, gpus, resources, Processes(), mps, proofs)
            agent = NodeAgent(settings, outside, retry=retry, version=version)
            host, port = await ends.enter_async_context(http.serving(settings.metrics_address, questions(agent)))
            where = f"[{host}]" if ":" in host else host
            LOG.info("node agent %s of node %s, metrics at http://%s:%d/metrics", version, settings.node, where, port)
            await _work(agent, stop)
    except OSError as error:
        raise errors.PermanentError(f"{settings.state_dir}: {error.strerror}") from error


async def _work(agent: NodeAgent, stop: asyncio.Event) -> None:
    """Be the agent until told to stop, then take leave, and leave nothing behind where nobody comes after."""
    working, stopping = asyncio.create_task(Tasks(agent).run()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await agent.leave()
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.wait({working}, timeout=END_SECONDS)
    if not working.done():
        LOG.error("the agent's work has not ended within %g s, and is left to the process's end", END_SECONDS)
    elif not working.cancelled():
        working.result()
    try:
        async with asyncio.timeout(GIVE_BACK_SECONDS):
            await agent.give_back()
    except (errors.TemporaryError, TimeoutError) as error:
        LOG.error("the node is not as it was: %s", error)  # its words say it all


def questions(agent: NodeAgent) -> http.Questions:
    """Return what is answered over HTTP."""

    async def unwell() -> str | None:
        if agent.machines is None:
            return None  # it waits for the driver, and a restart would not bring that
        return await liveness.fault(agent.settings.kubelet_dir)

    async def unready() -> str | None:
        current = agent.agent.current
        ready = conditions.find(current.conditions, gpunode.READY) if current else None
        if ready is None or not agent.agent.ready.is_set():
            return "the GPUNode has not been written yet"
        # What is wrong with the node is told there: another pod of ours would not mend it, and an update go no further.
        return f"{ready.reason}: {ready.message}" if ready.reason == readiness.Reason.KUBELET_UNREACHABLE else None

    readers = exposition.Readers.by(agent.settings.metrics_token_file, field="--metrics-token-file")
    return http.Questions(metrics=agent.metrics.text, unwell=unwell, unready=unready, readers=readers)


def _mps(settings: Settings, driver: hardware.Driver) -> v2.MPSv2:
    return v2.MPSv2(settings.mps_root, cuda_version=driver.cuda_version, program=settings.mps_control)


def _source(settings: Settings) -> access.Source:
    path = settings.kubeconfig
    if path is None:
        return lambda: access.in_cluster(os.environ)
    return lambda: access.from_kubeconfig(path)
