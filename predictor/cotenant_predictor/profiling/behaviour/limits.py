"""Experiments with limits: threads, memory, several processes, the tenant's own environment, priority."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from cotenant_predictor.profiling.mps import ControlDaemon

from .bench import Bench, Limits, Subject, answered, error_of
from .findings import Findings, UnansweredError

PERCENTAGES = tuple(range(10, 101, 10))
CONTEXT_PERCENTAGES = (10, 20, 30, 50, 70, 100)
LIMIT_MIB = 2048
SERVER_MIB, RAISED_MIB, FAR_MIB = 4096, 8192, 12288
SERVER_THREADS = 50
_TOLERANCE = 0.05
_NEAR_PERCENT = 6.0
"""Of all SMs: what rounding to the hardware's parts may take, 8 of 132 at once."""
_NOT_MODELLED = "not modelled"
_SMI_SECONDS = 20.0
_STOP_SECONDS = 30.0


def threads(bench: Bench, found: Findings) -> None:
    """Measure a new client for each percentage."""
    with found.asking("smCounts", "multiprocessors", "speeds", "moreIsNeverSlower"), bench.daemon() as daemon:
        facts, rates = {}, {}
        for percentage in PERCENTAGES:
            subject = bench.subject(daemon, Limits(thread_percentage=percentage))
            facts[percentage] = subject.open()
            rates[percentage] = _rate(bench.work(subject)[0])
            bench.end(subject)
        found.record("facts by percentage", facts)
        _told(found, "smCounts", {str(p): facts[p].get("smCount") for p in PERCENTAGES})
        _told(found, "multiprocessors", {str(p): facts[p].get("multiprocessors") for p in PERCENTAGES})
        _require_speeds(bench)
        found.values["speeds"] = {str(p): round(rates[p] / rates[100], 3) for p in PERCENTAGES}
        ordered = [rates[p] for p in PERCENTAGES]
        steps = itertools.pairwise(ordered)
        found.values["moreIsNeverSlower"] = all(more >= (1 - _TOLERANCE) * less for less, more in steps)


def memory_limit(bench: Bench, found: Findings) -> None:
    """One tenant takes memory until refused, while another works."""
    keys = ("error", "errorText", "usableMiB", "contextCounts", "neighbourUnaffected")
    with found.asking(*keys), bench.daemon() as daemon:
        neighbour = bench.opened(daemon)
        before = _rate(bench.work(neighbour)[0])
        limited = bench.subject(daemon, Limits(memory_mib=LIMIT_MIB))
        _shown(bench, limited.open(), found)
        neighbour.send({"do": "work", "until": None})
        reply = limited.ask("allocate", upToMiB=2 * LIMIT_MIB)
        found.record("allocations until refused", reply)
        _limit_answers(reply, found)
        _driver_answers(bench, limited, daemon, found)
        _neighbour_answers(neighbour, before, found)
        _torch_answers(bench, daemon, found)
        _context_answers(bench, daemon, found)


def context(bench: Bench, found: Findings) -> None:
    """Start a new client for some percentages, which does nothing but take a context."""
    with found.asking("limitMiB", "nvmlMiB"), bench.daemon() as daemon:
        if bench.is_stand_in:
            raise UnansweredError(_NOT_MODELLED)
        taken, told = {}, {}
        for percentage in CONTEXT_PERCENTAGES:
            subject = bench.subject(daemon, Limits(thread_percentage=percentage, memory_mib=LIMIT_MIB))
            taken[str(percentage)] = LIMIT_MIB - int(subject.open()["freeMiB"])
            told[str(percentage)] = bench.gpu.memory_by_process().get(subject.pid)
            bench.end(subject)
        found.values["limitMiB"], found.values["nvmlMiB"] = taken, told


def two_processes(bench: Bench, found: Findings) -> None:
    """Both take all they get, one after the other, and keep it."""
    with found.asking("eachGetsAll", "sumMiB"), bench.daemon() as daemon:
        both = [bench.opened(daemon, Limits(memory_mib=LIMIT_MIB)) for _ in range(2)]
        held = [int(answered(each.ask("allocate", upToMiB=2 * LIMIT_MIB))["allocatedMiB"]) for each in both]
        found.values["eachGetsAll"] = min(held) > LIMIT_MIB // 2 and abs(held[0] - held[1]) < LIMIT_MIB // 10
        found.values["sumMiB"] = sum(held)


def environment(bench: Bench, found: Findings) -> None:
    """Tenants with other environments under a server that has limits, and under one that has none."""
    keys = ("unsetThreads", "raisedThreads", "loweredThreads", "unsetMemory", "raisedMemory")
    shares: dict[str, float | None] = {}
    usable: dict[str, int] = {}
    with found.asking("openServer"), bench.daemon() as daemon:
        whole = _share(bench, daemon, Limits())
        everything = _usable(bench, daemon, Limits())
        shares["no limit, unset"], usable["no limit, unset"] = 1.0, everything
        found.values["openServer"] = everything >= FAR_MIB
    before = (
        f"set_default_active_thread_percentage {SERVER_THREADS}",
        f"set_default_device_pinned_mem_limit 0 {SERVER_MIB}M",
    )
    with found.asking(*keys, "liveServerRaised"), bench.daemon(before=before) as daemon:
        found.record("defaults", [daemon.ask("get_default_active_thread_percentage"), _memory_default(daemon)])
        for name, limits in (
            ("unset", Limits()),
            ("90 %", Limits(thread_percentage=90)),
            ("20 %", Limits(thread_percentage=20)),
        ):
            shares[name] = _ratio(_share(bench, daemon, limits), whole)
        for name, limits in (("unset", Limits()), (f"{RAISED_MIB} MiB", Limits(memory_mib=RAISED_MIB))):
            usable[name] = _usable(bench, daemon, limits)
        found.values["unsetThreads"] = _near(shares["unset"], SERVER_THREADS)
        found.values["raisedThreads"] = _near(shares["90 %"], SERVER_THREADS)
        found.values["loweredThreads"] = _near(shares["20 %"], 20)
        found.values["unsetMemory"] = SERVER_MIB // 2 < usable["unset"] <= SERVER_MIB
        found.values["raisedMemory"] = SERVER_MIB // 2 < usable[f"{RAISED_MIB} MiB"] <= SERVER_MIB
        found.record("set on a live server", daemon.ask(f"set_active_thread_percentage {daemon.server()} 80"))
        raised = _ratio(_share(bench, daemon, Limits()), whole)
        shares["live server set to 80 %, unset"] = raised
        found.values["liveServerRaised"] = _near(raised, 80)
    found.values.update({key: seen for key, seen in (("shares", shares), ("usableMiB", usable)) if seen})


def priority(bench: Bench, found: Findings) -> None:
    """Do the same work alone, beside an equal, and beside one of lower priority."""
    keys = ("alonePerSecond", "equalPerSecond", "mixedPerSecond", "preferred", "streamPriorities")
    with found.asking(*keys), bench.daemon() as daemon:
        normal, equal, below = (bench.subject(daemon, Limits(priority=number)) for number in (0, 0, 1))
        facts = [each.open() for each in (normal, equal, below)]
        _require_speeds(bench)
        found.values["alonePerSecond"] = _rate(bench.work(normal)[0])
        found.values["equalPerSecond"] = [_rate(one) for one in bench.work(normal, equal)]
        found.values["mixedPerSecond"] = mixed = [_rate(one) for one in bench.work(normal, below)]
        found.values["preferred"] = mixed[0] > (1 + _TOLERANCE) * mixed[1]
        _told(found, "streamPriorities", {str(n): facts[i].get("streamPriorities") for n, i in ((0, 0), (1, 2))})


def _limit_answers(reply: Mapping[str, Any], found: Findings) -> None:
    refused = reply["refused"]
    if refused is None:
        raise UnansweredError(f"nothing was refused up to {reply['allocatedMiB']} MiB: the limit did not hold")
    found.values["error"] = error_of({"error": refused})
    found.values["errorText"] = refused["text"]
    found.values["usableMiB"] = reply["allocatedMiB"]
    found.values["contextCounts"] = LIMIT_MIB - int(reply["allocatedMiB"]) >= 2 * 16  # pieces are of 16 MiB


def _shown(bench: Bench, facts: Mapping[str, Any], found: Findings) -> None:
    for key, name in (("shownTotalMiB", "totalMiB"), ("shownFreeMiB", "freeMiB")):
        if bench.is_stand_in:
            found.reasons[key] = _NOT_MODELLED
        else:
            found.values[key] = facts[name]


def _require_speeds(bench: Bench) -> None:
    """Raise UnansweredError where a step is a sleep: a speed would be the host's."""
    if bench.is_stand_in:
        raise UnansweredError(_NOT_MODELLED)


def _driver_answers(bench: Bench, limited: Subject, daemon: ControlDaemon, found: Findings) -> None:
    """Record what NVML and nvidia-smi say of the process that has met its limit."""
    found.record("clients that the daemon lists", list(daemon.clients()))
    held = bench.gpu.memory_by_process()
    found.record("memory by process, as NVML tells", held)
    found.values["nvmlTotalMiB"] = bench.gpu.memory_mib
    if limited.pid in held:
        found.values["nvmlProcessMiB"] = held[limited.pid]
    else:
        found.reasons["nvmlProcessMiB"] = f"NVML lists {len(held)} processes and not this PID"
    program = shutil.which("nvidia-smi")
    if program is None or bench.is_modelled:
        found.reasons["nvidiaSmi"] = "there is no nvidia-smi here"
        return
    query = ["--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"]
    try:
        ran = subprocess.run([program, *query], capture_output=True, text=True, timeout=_SMI_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        found.reasons["nvidiaSmi"] = str(error)
        return
    found.values["nvidiaSmi"] = (ran.stdout + ran.stderr).strip()[:400]


def _neighbour_answers(neighbour: Subject, before: float, found: Findings) -> None:
    neighbour.send({"do": "stop"})
    after = neighbour.receive(time.monotonic() + _STOP_SECONDS)
    found.record("neighbour", {"stepsPerSecondBefore": before, **after})
    found.values["neighbourUnaffected"] = after["error"] is None and after["steps"] > 0


def _torch_answers(bench: Bench, daemon: ControlDaemon, found: Findings) -> None:
    if bench.is_stand_in:
        found.reasons["torchText"] = "torch runs on no stand-in"
        return
    with found.asking("torchText"):
        subject = bench.opened(daemon, Limits(memory_mib=LIMIT_MIB))
        reply = answered(subject.ask("torch", mib=2 * LIMIT_MIB, grace_seconds=120.0))
        if "reason" in reply:
            raise UnansweredError(str(reply["reason"]))
        found.values["torchText"] = reply["text"]


def _context_answers(bench: Bench, daemon: ControlDaemon, found: Findings) -> None:
    """Measure what a second context takes: a context less is room for allocations more."""
    with found.asking("secondContextMiB"):
        if bench.is_stand_in:
            raise UnansweredError(_NOT_MODELLED)
        single, double = (bench.opened(daemon, Limits(memory_mib=LIMIT_MIB)) for _ in range(2))
        found.record("a second context", answered(double.ask("context")))
        held = [int(one.ask("allocate", upToMiB=2 * LIMIT_MIB)["allocatedMiB"]) for one in (single, double)]
        found.values["secondContextMiB"] = held[0] - held[1]


def _share(bench: Bench, daemon: ControlDaemon, limits: Limits) -> float:
    """SMs of a new client; its speed where SMs are not told."""
    subject = bench.subject(daemon, limits)
    facts = subject.open()
    measure = float(facts["smCount"]) if "smCount" in facts else _rate(bench.work(subject)[0])
    bench.end(subject)
    return measure


def _usable(bench: Bench, daemon: ControlDaemon, limits: Limits) -> int:
    subject = bench.opened(daemon, limits)
    held = int(answered(subject.ask("allocate", upToMiB=FAR_MIB))["allocatedMiB"])
    bench.end(subject)
    return held


def _memory_default(daemon: ControlDaemon) -> str:
    return daemon.ask("get_default_device_pinned_mem_limit 0")


def _ratio(share: float, whole: float) -> float:
    return round(share / whole, 3) if whole else 0.0


def _near(ratio: float | None, percent: float) -> bool:
    """Within what rounding to the hardware's parts may take."""
    return ratio is not None and abs(100 * ratio - percent) <= _NEAR_PERCENT


def _rate(worked: Mapping[str, Any]) -> float:
    answered(worked)
    return float(worked["perSecond"])


def _told(found: Findings, key: str, by: Mapping[str, Any]) -> None:
    if any(value is None for value in by.values()):
        found.reasons[key] = "the driver does not tell"
    else:
        found.values[key] = dict(by)
