"""Experiments with what is around a client: its /dev/shm and namespaces, its user, and a daemon that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence

from cotenant_predictor.profiling.seats import TenantError

from .bench import Bench, Limits, Subject, answered, error_of
from .findings import Findings, UnansweredError
from .limits import LIMIT_MIB

OTHER_USER = 12345
_TRIAL_SECONDS = 10.0
_WAITS_SECONDS = 5.0
"""A client that has no context by then is taken to wait for one."""
_OWN_MOUNT = 'mount -t tmpfs -o size=256m tmpfs /dev/shm && exec "$@"'
_OWN_PROC = 'mount -t proc proc /proc && mount -t tmpfs -o size=256m tmpfs /dev/shm && exec "$@"'


def shared_memory(bench: Bench, found: Findings) -> None:
    """Clients in namespaces of their own, as a container has them; without root, in a user namespace as well."""
    user = () if os.getuid() == 0 else ("--user", "--map-root-user")
    shell = ("sh", "-c")
    prefixes = {
        "ownSharedMemory": ("unshare", *user, "--mount", *shell, _OWN_MOUNT, "sh"),
        "ownIPC": ("unshare", *user, "--mount", "--ipc", *shell, _OWN_MOUNT, "sh"),
        "ownPID": ("unshare", *user, "--mount", "--ipc", "--pid", "--fork", "--kill-child", *shell, _OWN_PROC, "sh"),
    }
    with found.asking(*prefixes, "listedPID"), bench.daemon() as daemon:
        _trust(bench)
        for key, prefix in prefixes.items():
            with found.asking(key, *(["listedPID"] if key == "ownPID" else [])):
                permitted(prefix)
                before = set(daemon.clients())
                subject = bench.subject(daemon, prefix=prefix)
                reply = subject.ask("open")
                found.record(key, reply)
                worked = error_of(reply) or error_of(bench.work(subject)[0])
                new = set(daemon.clients()) - before
                found.values[key] = worked or ("yes" if new else "runs, and is no client")
                if key == "ownPID":
                    found.values["listedPID"] = "the host's" if new and subject.pid not in new else sorted(new)
                bench.end(subject)


def users(bench: Bench, found: Findings) -> None:
    """Try a client of another user beside one of ours, with one server for all users and without."""
    keys = ("otherWaits", "otherRunsAfter")
    with found.asking(*keys, "bothRun"):
        prefix = _as_other_user(bench)
        with found.asking(*keys), bench.daemon() as daemon:
            first, other = bench.opened(daemon), bench.subject(daemon, prefix=prefix)
            waits, reply = _waits(other)
            found.record("beside another user's client", reply)
            found.values["otherWaits"] = waits
            bench.end(first)
            if waits:
                later = other.receive(time.monotonic() + _TRIAL_SECONDS)
                found.record("after the first has ended", later)
                found.values["otherRunsAfter"] = error_of(later) is None
            else:
                found.reasons["otherRunsAfter"] = f"it did not wait: {error_of(reply) or 'it ran'}"
        with found.asking("bothRun"), bench.daemon("-multiuser-server") as daemon:
            first, other = bench.opened(daemon), bench.subject(daemon, prefix=prefix)
            waits, reply = _waits(other)
            found.record("with -multiuser-server", reply)
            works = not waits and error_of(reply) is None
            found.values["bothRun"] = works and all(one["error"] is None for one in bench.work(first, other))


def no_daemon(bench: Bench, found: Findings) -> None:
    """Try clients where the pipe directory holds no daemon; then where another GPU user, an MPS server, is there."""
    with found.asking("runs", "threadsIgnored", "memoryIgnored"):
        whole = bench.subject(None).open()
        subject = bench.subject(None, Limits(thread_percentage=10, memory_mib=LIMIT_MIB))
        reply = subject.ask("open")
        found.record("with limits and without a daemon", reply)
        found.values["runs"] = error_of(reply) is None
        facts = answered(reply)["facts"]
        held = int(answered(subject.ask("allocate", upToMiB=LIMIT_MIB + 512))["allocatedMiB"])
        found.values["memoryIgnored"] = held > LIMIT_MIB
        if facts.get("smCount") is None:
            found.reasons["threadsIgnored"] = "the driver does not tell SMs"
        else:
            found.values["threadsIgnored"] = facts["smCount"] == whole.get("smCount")
    bench.end_subjects()
    with found.asking("besideServer"), bench.daemon() as daemon:
        bench.opened(daemon)
        alone = bench.subject(None)
        found.values["besideServer"] = error_of(alone.ask("open")) or "yes"


def permitted(prefix: Sequence[str]) -> None:
    """Raise UnansweredError with the kernel's words where such a process may not be started here."""
    if shutil.which(prefix[0]) is None:
        raise UnansweredError(f"{prefix[0]} is not installed")
    try:
        ran = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnansweredError(f"{prefix[0]}: {error}") from error
    if ran.returncode != 0:
        raise UnansweredError(f"not permitted here: {ran.stderr.strip()[:200]}")


def _as_other_user(bench: Bench) -> tuple[str, ...]:
    if bench.is_modelled:
        raise UnansweredError("not modelled: users")
    if os.getuid() != 0:
        raise UnansweredError(f"needs root: this process has uid {os.getuid()}")
    prefix = ("setpriv", "--reuid", str(OTHER_USER), "--regid", str(OTHER_USER), "--clear-groups")
    permitted(prefix)
    return prefix


def _trust(bench: Bench) -> None:
    if bench.is_modelled:
        raise UnansweredError("not modelled: namespaces")


def _waits(subject: Subject) -> tuple[bool, dict[str, object]]:
    """Return whether it gets no context for now; else what it was answered."""
    try:
        return False, subject.ask("open", grace_seconds=_WAITS_SECONDS)
    except TenantError as error:
        if error.outcome != "Timeout":
            raise
        return True, {"waits": error.reason}
