"""Experiments with what manages the GPU: NVML's answers under MPS, and the node agent's own code against both."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from cotenant_predictor.profiling.mps import ControlDaemon

from .bench import Bench, Subject, error_of
from .findings import Findings, UnansweredError

_PRODUCT_SECONDS = 60.0
_EVENT_SECONDS = 6.0
_SETTLE_SECONDS = 1.2
"""Until the driver's sampled figures are of now."""


def nvml(bench: Bench, found: Findings) -> None:
    """Two clients work, and the driver is asked everything."""
    keys = ("computeLists", "mpsLists", "utilizationOf", "utilization", "pidsAreOurs")
    with found.asking(*keys), bench.daemon() as daemon, _working(bench, daemon) as clients:
        server, ours = daemon.server(), [client.pid for client in clients]
        asked = bench.gpu.asked()
        found.record("answers", asked.to_object())
        found.record("PIDs", {"clients": ours, "server": server, "daemon's list": list(daemon.clients())})
        for key, name in (
            ("computeLists", "computeProcesses"),
            ("mpsLists", "mpsProcesses"),
            ("utilizationOf", "processUtilization"),
        ):
            if name in asked.reasons:
                found.reasons[key] = asked.reasons[name]
            else:
                found.values[key] = _whose([int(row["pid"]) for row in asked.values[name]], ours, server)
        pids = {int(row["pid"]) for row in asked.values.get("computeProcesses", [])}
        pids |= {int(row["pid"]) for row in asked.values.get("mpsProcesses", [])}
        if pids:
            found.values["pidsAreOurs"] = bool(pids & {*ours, server})
        else:
            found.reasons["pidsAreOurs"] = "no process is listed"
        for key in ("utilization", "events", "recoveryAction", "remappedRows", "cores", "attributes"):
            if key in asked.values:
                found.values[key] = asked.values[key]
            else:
                found.reasons[key] = asked.reasons.get(key, "not asked")


def agent_nvml(bench: Bench, found: Findings) -> None:
    """`cotenant_deviceplugin.gpus` enumerates, reads, and waits for the event of a tenant's fault."""
    keys = ("devices", "smCount", "usage", "clientsFound", "readings", "untold", "xids")
    with found.asking(*keys):
        command = agent_command(bench, "nvml", str(_EVENT_SECONDS))
        with bench.daemon() as daemon, _working(bench, daemon) as clients:
            culprit = bench.opened(daemon)
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
                time.sleep(_EVENT_SECONDS / 2)
                found.record("the culprit", culprit.ask("fault"))
                told = _said(asking)
            found.record("the node agent's code", told)
            device = next((one for one in told["devices"] if one["uuid"] == bench.gpu.uuid), None)
            if device is None:
                raise UnansweredError(f"enumerates {len(told['devices'])} GPUs and not this one")
            found.values["devices"] = f"{len(told['devices'])}: {device['model']}, {device['memory_mib']} MiB"
            found.values["smCount"] = device["sm_count"]
            usage = told["usage"].get(bench.gpu.uuid, {})
            listed = {process["pid"] for process in usage.get("processes", [])}
            found.values["usage"] = {
                "utilization_percent": usage.get("utilization_percent"),
                "memory_used_mib": usage.get("memory_used_mib"),
                "processes": len(listed),
            }
            found.values["clientsFound"] = {client.pid for client in clients} <= listed
            found.values["readings"] = told["readings"].get(bench.gpu.uuid)
            found.values["untold"] = sorted(told["untold"])
            found.values["xids"] = sorted({event["xid"] for event in told["events"]})


def agent_mps(bench: Bench, found: Findings) -> None:
    """`cotenant_deviceplugin.mps` asks the daemon everything, ends a client, and reads the log of a fault."""
    keys = ("understood", "described", "clientSees", "observed", "faultSeen", "unknownCommand", "unknownServer")
    with found.asking(*keys), bench.daemon() as daemon:
        ended, culprit = bench.opened(daemon), bench.opened(daemon)
        command = agent_command(
            bench,
            "mps",
            daemon.pipe_directory,
            daemon.log_directory,
            json.dumps(bench.program),
            str(_number(daemon, ended)),
        )
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as asking:
            # It says when it has asked what needs a well server; then a client faults, and it reads the log.
            if asking.stdout is None or asking.stdin is None or not asking.stdout.readline():
                raise UnansweredError(_said(asking).get("reason", "it said nothing"))
            found.values["clientSees"] = error_of(bench.work(ended, seconds=0.1)[0]) or "no error"
            found.record("the culprit", culprit.ask("fault"))
            time.sleep(bench.conditions.work_seconds)
            told = _said(asking, send="go\n")
        found.record("word for word", told)
        found.values["understood"] = told["understood"]
        found.values["described"] = told["described"]
        found.values["faultSeen"] = len(told["fatal"])
        for key in ("unknownCommand", "unknownServer"):
            found.values[key] = told["answers"][key]
        if "observed" in told:
            found.values["observed"] = told["observed"]
        else:
            found.reasons["observed"] = told["observedReason"]


@contextlib.contextmanager
def _working(bench: Bench, daemon: ControlDaemon) -> Iterator[list[Subject]]:
    """Two clients that hold memory and work, for as long as the block lasts."""
    clients = [bench.opened(daemon) for _ in range(2)]
    for client in clients:
        client.ask("allocate", upToMiB=512)
        client.send({"do": "work", "until": None})
    time.sleep(_SETTLE_SECONDS)
    try:
        yield clients
    finally:
        for client in clients:
            bench.end(client)


def _whose(pids: list[int], clients: list[int], server: int | None) -> str:
    known = sum(pid in clients for pid in pids)
    others = len([pid for pid in pids if pid not in {*clients, server}])
    return f"{known} of {len(clients)} clients, server {'yes' if server in pids else 'no'}, others {others}"


def _number(daemon: ControlDaemon, subject: Subject) -> int:
    """As the daemon counts; the first one where its numbers are others."""
    clients = daemon.clients()
    if not clients:
        raise UnansweredError("the daemon lists no client: tenants run without MPS")
    return subject.pid if subject.pid in clients else clients[0]


def agent_command(bench: Bench, *arguments: str) -> list[str]:
    """Return the program that asks with the agent's code. Raises UnansweredError where it cannot run."""
    program = bench.conditions.product
    if bench.is_modelled:
        raise UnansweredError("not modelled: the agent's code asks a library and a program that are there")
    if program is None:
        raise UnansweredError("the program that holds the agent's code was not named (--product)")
    return [sys.executable, str(program), *arguments]


def _said(process: subprocess.Popen[str], *, send: str | None = None) -> dict[str, Any]:
    """Return what it says at its end. Raises UnansweredError: it could not ask, or broke off."""
    try:
        output, errors = process.communicate(send, timeout=_PRODUCT_SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise UnansweredError(f"it does not end: {error}") from error
    lines = output.splitlines()
    if process.returncode != 0 or not lines:
        raise UnansweredError(f"it ended with {process.returncode}: {errors.strip()[-300:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    if "reason" in found:
        raise UnansweredError(str(found["reason"]))
    return found
