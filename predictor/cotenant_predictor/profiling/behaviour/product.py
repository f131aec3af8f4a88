"""An experiment with tenants as the node agent has them: under its own daemon and server, as in a container.

The agent's code runs in a process of its own (`--product`) and is asked for what it sees.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cotenant_predictor.profiling import mechanisms

from .bench import Bench, Subject, answered, error_of, received, seconds_until
from .findings import Findings, UnansweredError
from .limits import LIMIT_MIB
from .management import agent_command
from .surroundings import OTHER_USER, permitted

THREADS = 30
_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_BUSY_SECONDS = 0.3
_CONTAINER = (
    "mount -t proc proc /proc && mount -t tmpfs -o size=256m tmpfs /dev/shm && "
    'mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p "$2" && mount --bind "$1" "$2" && '
    f'mount -o remount,bind,ro,nosuid,nodev,noexec "$2" && shift 2 && exec '
    f'setpriv --reuid {OTHER_USER} --regid {OTHER_USER} --clear-groups "$@"'
)
"""What a runtime does for a container, as far as MPS meets it: own /proc, /dev/shm and /run, the pipe, another user."""


class Agent:
    """The process with the node agent's code. `told`: what a tenant's container gets."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.told = self._line(_START_SECONDS)

    def ask(self, what: str) -> dict[str, Any]:
        """`observe` or `canary`. Raises UnansweredError."""
        if self._process.stdin is None:
            raise UnansweredError("the agent's code has no input")
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._line(_ANSWER_SECONDS)

    def state(self) -> str:
        """Of the server, as the agent tells it."""
        return str(self.ask("observe")["state"])

    def _line(self, seconds: float) -> dict[str, Any]:
        output = self._process.stdout
        if output is None or not select.select([output], [], [], seconds)[0]:
            raise UnansweredError(f"the agent's code says nothing for {seconds:g} s")
        line = output.readline()
        if not line:
            raise UnansweredError(f"the agent's code ended: {(self._process.communicate()[1] or '').strip()[-300:]}")
        found: dict[str, Any] = json.loads(line)
        if "reason" in found and "state" not in found:
            raise UnansweredError(str(found["reason"]))
        return found


def agent_tenant(bench: Bench, found: Findings) -> None:
    """Try a limited tenant, then one that is killed, then one that faults on the device; each with a neighbour."""
    first = ("secondsUntilActive", "canary", "runs", "smCount", "speed", "error", "usableMiB", "shownMiB")
    later = ("observed", "clientListed", "observedFault", "faultLines", "secondsUntilWell")
    with found.asking(*first, *later, "observedKill"), _agent(bench) as agent:
        found.record("what a container gets", agent.told)
        found.values["secondsUntilActive"] = agent.told["seconds"]["active"]
        found.values["canary"] = agent.ask("canary")["canary"] or "it passes"
        with found.asking(*first):
            _limited(bench, agent, found)
        bench.end_subjects()
        with found.asking("observedKill"):
            _killed(bench, agent, found)
        bench.end_subjects()
        with found.asking(*later[2:]):
            _faulted(bench, agent, found)
        bench.end_subjects()


def _limited(bench: Bench, agent: Agent, found: Findings) -> None:
    free, tenant = _tenant(bench, agent, limited=False), _tenant(bench, agent)
    whole, facts = free.open(), tenant.open()
    found.record("without limits", whole)
    found.record("with its limits", facts)
    observed = agent.ask("observe")
    found.record("the agent's observation", observed)
    found.values["observed"] = _summary(observed)
    found.values["runs"] = len(observed["clients"]) == 2  # both of them
    found.values["clientListed"] = set(observed["clients"]) <= _processes()
    found.values["smCount"] = [facts.get("smCount"), whole.get("smCount")]
    if bench.is_stand_in:
        found.reasons.update(dict.fromkeys(("speed", "shownMiB"), "not modelled"))
    else:
        rates = [float(answered(bench.work(each)[0])["perSecond"]) for each in (tenant, free)]
        found.values["speed"] = round(rates[0] / rates[1], 3)
        found.values["shownMiB"] = [facts["freeMiB"], facts["totalMiB"]]
    reply = tenant.ask("allocate", upToMiB=2 * LIMIT_MIB)
    found.record("allocations until refused", reply)
    found.values["error"] = error_of({"error": reply["refused"]}) or "nothing was refused"
    found.values["usableMiB"] = reply["allocatedMiB"]


def _killed(bench: Bench, agent: Agent, found: Findings) -> None:
    neighbour, victim = _tenant(bench, agent), _tenant(bench, agent)
    neighbour.open()
    before = set(agent.ask("observe")["clients"])
    victim.open()
    new = set(agent.ask("observe")["clients"]) - before
    if len(new) != 1:
        raise UnansweredError(f"the agent sees {sorted(new)} as new clients")
    for each in (victim, neighbour):
        each.send({"do": "work", "until": None})
    time.sleep(_BUSY_SECONDS)
    os.kill(new.pop(), signal.SIGKILL)  # as a runtime does: to kill what started it in its namespaces is not enough
    seen = [agent.ask("observe")]
    time.sleep(bench.conditions.work_seconds)
    seen.append(agent.ask("observe"))
    found.record("after a kill", seen)
    neighbour.send({"do": "stop"})
    report = received(neighbour)
    found.record("its neighbour", report)
    found.values["observedKill"] = (
        f"{_summary(seen[0])}; later {_summary(seen[1])}; its neighbour: {error_of(report) or 'works on'}"
    )


def _faulted(bench: Bench, agent: Agent, found: Findings) -> None:
    seconds_until(lambda: agent.state() == "Active")
    culprit, neighbour = _tenant(bench, agent), _tenant(bench, agent)
    culprit.open()
    neighbour.open()
    neighbour.send({"do": "work", "until": None})
    agent.ask("observe")
    found.record("the culprit", culprit.ask("fault"))
    time.sleep(bench.conditions.work_seconds)
    seen = agent.ask("observe")
    found.record("after a fault", seen)
    found.values["observedFault"] = _summary(seen)
    found.values["faultLines"] = len(seen["faults"])
    found.record("its neighbour", received(neighbour))
    bench.end_subjects()
    seconds = seconds_until(lambda: agent.state() == "Active")
    if seconds is None:
        raise UnansweredError(f"it is not ACTIVE again: {_summary(agent.ask('observe'))}")
    found.values["secondsUntilWell"] = seconds


def _tenant(bench: Bench, agent: Agent, *, limited: bool = True) -> Subject:
    """Return a process as in a container that the agent has prepared; without limits it is one that has unset them."""
    mount = agent.told["mounts"][0]
    environment = dict(agent.told["environment"])
    if not limited:
        environment = {mechanisms.PIPE_DIRECTORY: environment[mechanisms.PIPE_DIRECTORY]}
    shell = ("sh", "-c", _CONTAINER, "sh", str(mount["hostPath"]), str(mount["containerPath"]))
    prefix = ("unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child", *shell)
    permitted(prefix)
    return bench.subject_with(environment, under_mps=True, prefix=prefix)


@contextlib.contextmanager
def _agent(bench: Bench) -> Iterator[Agent]:
    """Yield the agent's code with its daemon; at the end both have ended."""
    with tempfile.TemporaryDirectory(prefix="cotenant-") as folder:
        Path(folder).chmod(0o755)
        words = agent_command(
            bench, "tenant", folder, bench.gpu.uuid, json.dumps(bench.program), str(THREADS), str(LIMIT_MIB)
        )
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, text=True, **pipes) as process:  # type: ignore[call-overload]
            try:
                yield Agent(process)
            finally:
                bench.end_subjects()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=_START_SECONDS)
                process.kill()


def _summary(observed: Mapping[str, Any]) -> str:
    reason = observed.get("reason")
    return f"{observed['state']}, {len(observed['clients'])} clients" + (f", {reason}" if reason else "")


def _processes() -> set[int]:
    """All that live, as this PID namespace counts."""
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
