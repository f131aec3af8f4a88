"""Asks NVML and a control daemon with the node agent's own code, and prints what it reads as JSON.

    product.py nvml SECONDS                            enumerates, reads, and receives events for so long
    product.py mps PIPE LOG PROGRAM CLIENT             PROGRAM: JSON list; CLIENT: PID of a client that it ends;
                                                       prints a line, waits for one, then reads the log
    product.py tenant ROOT GPU PROGRAM THREADS MIB     runs the GPU's daemon and server; says what a tenant's container
                                                       gets, then answers `observe` and `canary`, until its input ends

Changes no setting of a GPU. Where the agent's code or what it needs is not installed it prints {"reason": ..}.
"""

import asyncio
import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

_WAIT_SECONDS, _LOOK_SECONDS = 30.0, 0.1

Asks = Callable[[Sequence[str]], Coroutine[Any, Any, dict[str, Any]]]


async def nvml(arguments: Sequence[str]) -> dict[str, Any]:
    """`cotenant_deviceplugin.gpus`."""
    from cotenant_deviceplugin.gpus.nvml import NVML

    gpus, events = NVML(), []

    async def receive() -> None:
        async for event in gpus.events():
            events.append(dataclasses.asdict(event))  # noqa: PERF401  # it never ends: told as they come

    receiving = asyncio.create_task(receive())
    try:
        found = {
            "driver": dataclasses.asdict(await gpus.driver()),
            "devices": [dataclasses.asdict(device) for device in await gpus.devices()],
            "usage": {uuid: dataclasses.asdict(usage) for uuid, usage in (await gpus.usage()).items()},
            "readings": {uuid: dataclasses.asdict(one) for uuid, one in (await gpus.readings()).items()},
            "simulated": gpus.simulated,
        }
        await asyncio.wait((receiving,), timeout=float(arguments[0]))
    finally:
        receiving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await receiving
    return {**found, "untold": gpus.untold, "events": events}


async def mps(arguments: Sequence[str]) -> dict[str, Any]:
    """`cotenant_deviceplugin.mps`: every answer word for word, and what the agent reads from it."""
    from cotenant_deviceplugin.mps import control, logs

    pipe, log, program, client = arguments
    daemon = control.Control(Path(pipe), program=json.loads(program))
    tail = logs.Tail(Path(log))
    server = (await daemon.servers())[0]
    answers = await _answers(daemon, server)
    described = await daemon.describe(server)
    observed = await _observed(Path(pipe), json.loads(program))
    await daemon.terminate_client(server, int(client))
    after = await daemon.clients(server)
    print(json.dumps({"asked": True}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return {
        "answers": answers,
        "understood": described.servers == (server,) and int(client) in described.clients,
        "described": dataclasses.asdict(described),
        "listedAfterTheEnd": int(client) in after,
        "fatal": list(tail.read()),
        **observed,
    }


async def tenant(arguments: Sequence[str]) -> dict[str, Any]:
    """`cotenant_deviceplugin.mps`, as a node has it: its own daemon, its server, a tenant's container, and looks."""
    from cotenant_api import placement
    from cotenant_api.names import GPUUID
    from cotenant_deviceplugin.mps import daemon, daemons, readiness, v2

    root, gpu, program = Path(arguments[0]), GPUUID(arguments[1]), json.loads(arguments[2])
    stop, backend = asyncio.Event(), v2.MPSv2(root, cuda_version="13.0", program=program)
    settings = daemon.Settings(
        root=root, program=program, environment=daemons.inherited(), look_seconds=_LOOK_SECONDS, drain_seconds=0
    )
    booking = placement.GPUBooking(
        uuid=gpu, share=int(arguments[3]), active_thread_percentage=int(arguments[3]), memory_mib=int(arguments[4])
    )
    one = daemon.Daemon(gpu, settings, stop, users=_nobody, readiness=readiness.Readiness())
    running, begun = asyncio.create_task(one.run()), time.monotonic()
    try:
        await _until(lambda: backend.answers(gpu))
        answered = time.monotonic() - begun
        await backend.start(gpu)
        active = await _until(lambda: _is_active(backend, gpu))
        edits = dataclasses.asdict(backend.edits(gpu, booking, processes=1))
        seconds = {"daemonAnswers": round(answered, 3), "active": round(time.monotonic() - begun, 3)}
        print(json.dumps({**edits, "seconds": seconds, "isActive": active}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await _looked(line.strip(), backend, root, gpu), default=str), flush=True)
    finally:
        stop.set()
        await running
    return {"ended": True}


async def _looked(what: str, backend: Any, root: Path, gpu: Any) -> dict[str, Any]:
    """Return what the node agent sees now: of the server, or by a canary of its own."""
    from cotenant_deviceplugin.mps import canaries

    if what == "canary":
        return {"canary": await canaries.Canaries(root).run(gpu, server=backend)}
    seen: dict[str, Any] = dataclasses.asdict(await backend.observe(gpu))
    return seen


async def _until(condition: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
    """Return whether it came true in time."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not await condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _is_active(backend: Any, gpu: Any) -> bool:
    return bool((await backend.observe(gpu)).state == "Active")


async def _nobody(_: Any) -> frozenset[int]:
    return frozenset()


async def _answers(daemon: Any, server: int) -> dict[str, str]:
    """Return what the program prints, for each command alone."""
    asked = {
        "serverList": "get_server_list",
        "serverStatus": f"get_server_status {server}",
        "clientList": f"get_client_list {server}",
        "percentage": f"get_active_thread_percentage {server}",
        "defaultPercentage": "get_default_active_thread_percentage",
        "memory": f"get_device_pinned_mem_limit {server} 0",
        "defaultMemory": "get_default_device_pinned_mem_limit 0",
        "deviceClients": "get_device_client_list",
        "processes": "ps",
        "unknownServer": "get_server_status 999999",
        "unknownClient": f"terminate_client {server} 999999",
        "unknownCommand": "get_colour",
    }
    found = {}
    for name, command in asked.items():
        try:
            found[name] = await daemon.ask(command)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what the agent would have met
            found[name] = f"{type(error).__name__}: {error}"
    return found


async def _observed(pipe: Path, program: Sequence[str]) -> dict[str, Any]:
    """`MPSv2.observe` over a folder that looks as the agent's own does; needs pydantic."""
    import tempfile

    try:
        from cotenant_deviceplugin.mps import layout, v2
    except ModuleNotFoundError as error:
        return {"observedReason": str(error)}
    from cotenant_api.names import GPUUID

    with tempfile.TemporaryDirectory() as folder:
        gpu = GPUUID("GPU-1")
        layout.log(Path(folder), gpu).mkdir(parents=True)
        layout.pipe(Path(folder), gpu).symlink_to(pipe)
        seen = await v2.MPSv2(Path(folder), cuda_version="13.0", program=program).observe(gpu)
    return {"observed": f"{seen.state}, {len(seen.clients)} clients" + (f", {seen.reason}" if seen.reason else "")}


COMMANDS: dict[str, Asks] = {"nvml": nvml, "mps": mps, "tenant": tenant}


def main(words: Sequence[str]) -> int:
    """Print one line of JSON."""
    try:
        found: dict[str, Any] = asyncio.run(COMMANDS[words[0]](words[1:]))
    except ModuleNotFoundError as error:
        found = {"reason": f"the node agent's code does not run here: {error}"}
    print(json.dumps(found, default=str), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
