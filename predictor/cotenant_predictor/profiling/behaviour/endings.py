"""Experiments with a tenant's end: killed while busy, with and without `terminate_client`, and faulting on the device.

Neighbours: two that work all the time. What they see is told by themselves; the server's state by the control daemon.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from cotenant_predictor.profiling.mps import ControlDaemon
from cotenant_predictor.profiling.seats import TenantError

from . import bench as benches
from .bench import Bench, Subject, answered, error_of, received, seconds_until, status
from .findings import Findings, UnansweredError

NEIGHBOURS = 2
_BUSY_SECONDS = 0.3
"""How long a victim works before its end."""
_PROGRAM_END_SECONDS = 15.0
_FATAL = ("fatal", "FAULT")


def kill(bench: Bench, found: Findings) -> None:
    """SIGKILL alone."""
    _endings(bench, found, terminate=False)


def kill_terminated(bench: Bench, found: Findings) -> None:
    """`terminate_client`, then SIGKILL."""
    _endings(bench, found, terminate=True)


def _endings(bench: Bench, found: Findings, *, terminate: bool) -> None:
    counted: dict[str, Any] = {
        "kills": 0,
        "states": [],
        "serversReplaced": 0,
        "neighbourErrors": 0,
        "neighbourErrorNames": [],
        "clientListed": 0,
    }
    largest: dict[str, float] = {}
    more = ("terminateAnswers", "listedWhileAlive", "terminateSeconds", "victimErrors") if terminate else ()
    with found.asking(*counted, "usualStepMilliseconds", "longestStepMilliseconds", "secondsUntilNewClient", *more):
        with bench.daemon() as daemon:
            neighbours: list[Subject] = []
            for _ in range(bench.conditions.kills):
                neighbours = _renewed(bench, daemon, neighbours)
                seen = _one(bench, daemon, neighbours, terminate=terminate)
                found.record("an end", seen)
                _count(seen, counted, largest)
        found.values.update(counted)
        found.values.update({key: round(value, 3) for key, value in largest.items()})


def _one(bench: Bench, daemon: ControlDaemon, neighbours: list[Subject], *, terminate: bool) -> dict[str, Any]:
    """One busy tenant comes, and ends."""
    server, before = daemon.server(), set(daemon.clients())
    victim = bench.opened(daemon)
    listed = _listed(daemon, victim, before)
    for neighbour in neighbours:
        neighbour.send({"do": "work", "until": None})
    victim.send({"do": "work", "until": None})
    time.sleep(_BUSY_SECONDS)
    told = _terminated(daemon, victim, listed) if terminate else {}
    ended = time.monotonic()
    victim.kill()
    state = status(daemon)
    still = listed in daemon.clients()
    time.sleep(bench.conditions.work_seconds)
    reports = [_stopped(neighbour) for neighbour in neighbours]
    failed = [neighbour for neighbour, report in zip(neighbours, reports, strict=True) if report["error"]]
    for neighbour in failed:
        bench.end(neighbour)
        neighbours.remove(neighbour)
    bench.end(victim)
    active = seconds_until(lambda: status(daemon) == "ACTIVE")
    newcomer = _newcomer(bench, daemon, since=ended)
    return {
        **told,
        "state": state,
        "stillListed": still,
        "secondsUntilActive": active,
        "serverReplaced": daemon.server() != server,
        "neighbours": reports,
        "newClient": newcomer,
    }


def _count(seen: Mapping[str, Any], counted: dict[str, Any], largest: dict[str, float]) -> None:
    counted["kills"] += 1
    counted["states"] = sorted({*counted["states"], seen["state"]})
    counted["serversReplaced"] += seen["serverReplaced"]
    counted["clientListed"] += seen["stillListed"]
    errors = [name for report in seen["neighbours"] if (name := error_of(report))]
    counted["neighbourErrors"] += len(errors)
    counted["neighbourErrorNames"] = sorted({*counted["neighbourErrorNames"], *errors})
    for report in seen["neighbours"]:
        _raise(largest, "usualStepMilliseconds", report.get("medianMilliseconds"))
        _raise(largest, "longestStepMilliseconds", report.get("longestMilliseconds"))
    _raise(largest, "secondsUntilNewClient", seen["newClient"].get("secondsSinceEnd"))
    if "terminateSeconds" in seen:
        _raise(largest, "terminateSeconds", seen["terminateSeconds"])
        counted["listedWhileAlive"] = counted.get("listedWhileAlive", 0) + seen["listedWhileAlive"]
        counted["terminateAnswers"] = sorted({*counted.get("terminateAnswers", []), seen["terminateAnswer"]})
        counted["victimErrors"] = sorted({*counted.get("victimErrors", []), seen["victimError"]})


def _terminated(daemon: ControlDaemon, victim: Subject, listed: int) -> dict[str, Any]:
    """Return the daemon's answer, how long it takes, and what the tenant sees before it is killed."""
    begun = time.monotonic()
    answer = daemon.ask(f"terminate_client {daemon.server()} {listed}")
    took = time.monotonic() - begun
    reply = received(victim, grace_seconds=5.0)
    return {
        "listedWhileAlive": listed in daemon.clients(),
        "terminateAnswer": answer.strip() or "nothing",
        "terminateSeconds": round(took, 3),
        "victimError": error_of(reply) or "no error",
    }


def fault(bench: Bench, found: Findings) -> None:
    """One tenant writes to an address that is nobody's."""
    keys = ("culpritError", "neighboursAllFail", "neighbourErrorNames", "neighbourSeconds", "state", "newClientError")
    later = ("secondsUntilActive", "newClientWorks", "serverStays", "logLines")
    with found.asking(*keys, *later), bench.daemon() as daemon:
        server = daemon.server()
        neighbours = _renewed(bench, daemon, [])
        culprit = bench.opened(daemon)
        for neighbour in neighbours:
            neighbour.send({"do": "work", "until": None})
        time.sleep(_BUSY_SECONDS)
        begun = time.monotonic()
        reply = culprit.ask("fault")
        found.record("the culprit", reply)
        found.values["culpritError"] = error_of(reply) or "no error"
        time.sleep(bench.conditions.work_seconds)
        found.values["state"] = status(daemon)
        _while_fault(bench, daemon, found)
        reports = [_stopped(neighbour) for neighbour in neighbours]
        found.record("the neighbours", reports)
        failed = [report for report in reports if report["error"]]
        found.values["neighboursAllFail"] = len(failed) == NEIGHBOURS
        found.values["neighbourErrorNames"] = sorted({str(error_of(report)) for report in failed})
        _told(found, "neighbourSeconds", [report["endedAt"] - begun for report in failed if "endedAt" in report])
        _after_fault(bench, daemon, found, server)


def _while_fault(bench: Bench, daemon: ControlDaemon, found: Findings) -> None:
    with found.asking("newClientError"):
        late = bench.subject(daemon)
        try:
            reply = late.ask("open", grace_seconds=10.0)
        except TenantError as error:
            raise UnansweredError(f"a new client hangs or ends: {error}") from error
        finally:
            bench.end(late)
        found.values["newClientError"] = error_of(reply) or "none"


def _after_fault(bench: Bench, daemon: ControlDaemon, found: Findings, server: int | None) -> None:
    bench.end_subjects()
    seconds = seconds_until(lambda: status(daemon) in {"ACTIVE", "no server"})
    _told(found, "secondsUntilActive", [] if seconds is None else [seconds])
    newcomer = _newcomer(bench, daemon, since=time.monotonic())
    found.record("a new client", newcomer)
    found.values["newClientWorks"] = newcomer["error"] is None
    found.values["serverStays"] = daemon.server() == server
    logs = daemon.logs()
    found.record("logs", {name: text[-8000:] for name, text in logs.items()})
    lines = [line.strip()[-160:] for text in logs.values() for line in text.splitlines()]
    told = dict.fromkeys(_without_figures(line) for line in lines if any(sign in line for sign in _FATAL))
    if told:
        found.values["logLines"] = list(told)[:6]
    else:
        found.reasons["logLines"] = "the logs hold no such line"


def _renewed(bench: Bench, daemon: ControlDaemon, neighbours: list[Subject]) -> list[Subject]:
    missing = NEIGHBOURS - len(neighbours)
    return [*neighbours, *(bench.opened(daemon) for _ in range(missing))]


def _newcomer(bench: Bench, daemon: ControlDaemon, *, since: float) -> dict[str, Any]:
    """Try until a new client works, and say how long after a moment that was."""
    deadline = time.monotonic() + benches.WAIT_SECONDS
    while True:
        subject = bench.subject(daemon)
        try:
            answered(subject.ask("open", grace_seconds=_PROGRAM_END_SECONDS))
            answered(bench.work(subject, seconds=0.05)[0])
        except (UnansweredError, TenantError) as error:
            if time.monotonic() > deadline:
                return {"error": str(error)[:200], "secondsSinceEnd": None}
        else:
            return {"error": None, "secondsSinceEnd": round(time.monotonic() - since, 3)}
        finally:
            bench.end(subject)


def _listed(daemon: ControlDaemon, subject: Subject, before: set[int]) -> int:
    """Return the number under which the daemon knows a client: its own, or that of another PID namespace.

    Raises:
        UnansweredError: it is no client.
    """
    clients = set(daemon.clients())
    if subject.pid in clients:
        return subject.pid
    new = clients - before
    if len(new) != 1:
        raise UnansweredError(f"the daemon lists {sorted(new)} as new clients: a tenant runs without MPS")
    return new.pop()


def _stopped(neighbour: Subject) -> dict[str, Any]:
    neighbour.send({"do": "stop"})
    return received(neighbour)


def _told(found: Findings, key: str, values: list[float]) -> None:
    if values:
        found.values[key] = round(max(values), 3)
    else:
        found.reasons[key] = "did not happen in time"


def _raise(largest: dict[str, float], key: str, value: float | None) -> None:
    if value is not None:
        largest[key] = max(largest.get(key, 0.0), float(value))


def _without_figures(line: str) -> str:
    """Return a line of a log without its time and numbers of processes, which differ in every run."""
    text = line.partition("]")[2].strip() or line
    return re.sub(r"\d+", "N", text)
