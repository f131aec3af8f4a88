"""The process of `cotenant simulated-agents`: puts the parts of each agent together, and ends on a signal."""

import asyncio
import logging
import random
import signal
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import cotenant_api
from cotenant_api.names import Namespace
from cotenant_deviceplugin.agent import Agent, GPUs, Identity
from cotenant_deviceplugin.clock import SystemClock
from cotenant_deviceplugin.kube import access, client, stores
from cotenant_deviceplugin.kube.cluster import Cluster
from cotenant_deviceplugin.retry import Retry
from cotenant_deviceplugin.simulated import config, models
from cotenant_deviceplugin.simulated import gpus as simulated

AGENT_VERSION = f"{cotenant_api.__version__}+simulated"


class _NodeLog(logging.LoggerAdapter[logging.Logger]):
    """Every line names the node, and that its GPUs are simulated."""

    def process(self, msg: str, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        return f"{(self.extra or {})['node']}: simulated GPUs: {msg}", kwargs


def run(configuration: config.Configuration) -> int:
    """Run all agents until SIGTERM or SIGINT; the exit code."""
    asyncio.run(_serve(configuration))
    return 0


def assembled(agent: config.SimulatedAgent, namespace: Namespace, *, api: Cluster, retry: Retry) -> Agent:
    """One node's agent, with simulated GPUs that do what the node's pods are predicted to do."""
    pods = stores.Pods()
    model = models.MODELS[agent.gpu_model]
    devices = simulated.devices(agent.node, model=model, count=agent.gpus)
    gpus = simulated.SimulatedGPUs(agent.node, devices, running=pods.running)
    identity = Identity(agent.node, namespace, AGENT_VERSION)
    return Agent(identity, api, gpus=GPUs(gpus, gpus), pods=pods, retry=retry)


async def _serve(configuration: config.Configuration) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as connections:
        agents = [
            _connected(each, configuration.namespace, connections.push_async_callback) for each in configuration.agents
        ]
        gpus = sum(each.gpus for each in configuration.agents)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(agent.run()) for agent in agents]
            tasks.append(group.create_task(_announce(agents, gpus)))
            await stop.wait()
            for task in tasks:
                task.cancel()


def _connected(agent: config.SimulatedAgent, namespace: Namespace, at_end: Callable[..., Any]) -> Agent:
    api = client.KubernetesCluster(lambda: access.from_kubeconfig(agent.kubeconfig))
    at_end(api.close)
    log = _NodeLog(logging.getLogger("cotenant.agent"), {"node": agent.node})
    # Seeded by the node, so that agents started together do not try again together.
    retry = Retry(SystemClock(), random.Random(agent.node), log)  # noqa: S311
    return assembled(agent, namespace, api=api, retry=retry)


async def _announce(agents: Sequence[Agent], gpus: int) -> None:
    for agent in agents:
        await agent.ready.wait()
    print(f"{gpus} simulated GPUs on {len(agents)} nodes", flush=True)
