"""`cotenant node-agent` as a process: kubelet, API server and stand-in GPUs around it, and signals."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from cotenant_api import errors
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.kubelet import paths
from cotenant_deviceplugin.mps import layout
from cotenant_deviceplugin.node import liveness
from cotenant_deviceplugin.node.agent import LEAVING
from cotenant_standin import state
from deviceplugin import fakes
from node_kit import agent_process, quick

Ask = Callable[[str], Awaitable[tuple[int, str]]]


@pytest.fixture
async def around() -> AsyncIterator[agent_process.AgentProcess]:
    async with agent_process.around() as made:
        yield made


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    async with aiohttp.ClientSession() as session:

        async def get(url: str) -> tuple[int, str]:
            async with session.get(url) as response:
                return response.status, await response.text()

        yield get


async def until_it_is(wanted: object, asked: Callable[[], Awaitable[tuple[object, object]]]) -> None:
    """Ask until the first part of the answer is as wanted."""
    async with asyncio.timeout(quick.PATIENCE_SECONDS):
        while (await asked())[0] != wanted:  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.05)


async def faults(around: agent_process.AgentProcess) -> tuple[str | None, None]:
    return await liveness.fault(around.folder / "kubelet"), None


async def test_it_serves_kubelet_and_prometheus_and_ends_cleanly_on_sigterm(
    around: agent_process.AgentProcess, ask: Ask
) -> None:
    process = around.start()
    try:
        await quick.until(around.ready)
        await quick.until(lambda: "metrics at " in around.log.read_text())
        async with asyncio.timeout(quick.PATIENCE_SECONDS):
            await around.kubelet.has_tokens(100)
        await until_it_is(200, lambda: ask(f"{around.url()}/readyz"))
        assert await ask(f"{around.url()}/healthz") == (200, "ok\n")
        status, text = await ask(f"{around.url()}/metrics")
        assert status == 200
        assert 'simulated="true"' in text
        assert "cotenant_gpu_utilization_ratio{" in text
        assert 'cotenant_device_plugin_rpc_duration_seconds_count{method="GetDevicePluginOptions",result="OK"}' in text
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, quick.PATIENCE_SECONDS) == 0
        assert "Traceback" not in around.log.read_text()
        # Told before kubelet lost the shares: nothing is placed here meanwhile.
        ready = next(each for each in around.api.status()["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "KubeletUnreachable")
        assert ready["message"] == LEAVING
    finally:
        process.kill()
        process.wait()


async def test_a_plugin_whose_socket_is_taken_away_is_not_alive(around: agent_process.AgentProcess, ask: Ask) -> None:
    process = around.start()
    try:
        await quick.until(around.ready)
        process.send_signal(signal.SIGSTOP)
        fault = await liveness.fault(around.folder / "kubelet", timeout_seconds=0.2)
        assert fault is not None
        assert "does not answer" in fault
        process.send_signal(signal.SIGCONT)
        await until_it_is(None, lambda: faults(around))
        paths.registry(around.folder / "kubelet").unlink()
        assert await liveness.fault(around.folder / "kubelet") is None
    finally:
        process.kill()
        process.wait()


async def test_it_ends_although_the_api_server_does_not_answer(around: agent_process.AgentProcess) -> None:
    process = around.start()
    try:
        await quick.until(around.ready)
        around.api.down = errors.TemporaryError("down", delay_seconds=0)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, quick.PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


async def test_it_ends_and_gives_its_node_back_although_the_driver_hangs(around: agent_process.AgentProcess) -> None:
    path = cluster.node_path(fakes.NODE)
    node = around.api.objects[path]
    around.api.put(path, {**node, "metadata": {**node["metadata"], "labels": {"cotenant.dev/gpu": "true"}}})
    process = around.start("--node-selector", "cotenant.dev/gpu=true")
    mark = layout.given_back(around.machine.mps_root)
    try:
        await quick.until(lambda: around.ready() and around.gpu()["mps"] == "Active")
        around.machine.state.stall()
        around.api.put(path, node)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, quick.PATIENCE_SECONDS) == 0
        assert mark.exists()
        assert "the node is given back" in around.log.read_text()
    finally:
        process.kill()
        process.wait()


async def test_two_agents_by_mistake_take_turns(around: agent_process.AgentProcess) -> None:
    first = around.start()
    second = None
    try:
        await quick.until(around.ready)
        second = around.start()
        await quick.until(lambda: "waiting for its end" in around.log.read_text())
        first.kill()
        await quick.until(lambda: "taking over" in around.log.read_text())
        await quick.until(lambda: around.kubelet.registrations == 2)
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()


async def test_an_address_that_is_taken_is_named(around: agent_process.AgentProcess) -> None:
    process = around.start()
    try:
        await quick.until(lambda: "metrics at " in around.log.read_text())
        port = around.url().rpartition(":")[2]
        other = around.folder / "other"
        taken = around.start("--state-dir", str(other), "--metrics-address", f"127.0.0.1:{port}")
        assert await asyncio.to_thread(taken.wait, quick.PATIENCE_SECONDS) == 1
        assert f"--metrics-address: 127.0.0.1:{port}" in around.log.read_text()
    finally:
        process.kill()
        process.wait()


async def test_after_a_client_has_crashed_a_canary_of_cuda_opens_the_gpu_again(
    around: agent_process.AgentProcess,
) -> None:
    process = around.start()
    try:
        async with asyncio.timeout(quick.PATIENCE_SECONDS):
            await around.kubelet.has_tokens(100)
        await quick.until(lambda: around.gpu()["mps"] == "Active")
        crashed = around.machine.cuda("--crash")
        assert "illegal memory access" in await asyncio.to_thread(crashed.end)
        await quick.until(lambda: "a canary has passed" in around.log.read_text())
        await quick.until(lambda: around.gpu()["health"] == "Healthy")
        assert around.gpu()["lastFault"]["xid"] == 31
        assert around.gpu()["foreignProcesses"] == 0
        assert " connected" in around.machine.said().rpartition("fatal")[2]
    finally:
        process.kill()
        process.wait()


async def test_a_node_that_is_given_back_is_as_it_was_once_its_last_tenant_has_ended() -> None:
    async with agent_process.around(daemons=False) as around:
        path = cluster.node_path(fakes.NODE)
        node = around.api.objects[path]
        around.api.put(path, {**node, "metadata": {**node["metadata"], "labels": {"cotenant.dev/gpu": "true"}}})
        daemons, agent = around.start_daemons(), around.start("--node-selector", "cotenant.dev/gpu=true")
        try:
            await quick.until(lambda: around.ready() and around.gpu()["mps"] == "Active")
            tenant = await asyncio.to_thread(around.machine.tenant)
            around.api.put(path, node)
            for process in (agent, daemons):
                process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(agent.wait, quick.PATIENCE_SECONDS) == 0
            # Its tenant goes on, behind its limits.
            assert tenant.process.poll() is None
            assert around.machine.state.gpu(0).compute_mode is state.ComputeMode.EXCLUSIVE_PROCESS
            tenant.process.terminate()
            assert await asyncio.to_thread(daemons.wait, quick.PATIENCE_SECONDS) == 0
            assert around.machine.state.gpu(0).compute_mode is state.ComputeMode.DEFAULT
            assert list(around.machine.mps_root.iterdir()) == []
            assert "Traceback" not in around.log.read_text()
        finally:
            for process in (agent, daemons):
                process.kill()
                process.wait()
