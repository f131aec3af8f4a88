"""The extender alone, at the size of a large cluster: start, memory, filter over HTTP on loopback, events.

The process is the real one; the API server is a list of encoded pages. Its GPUs are simulated.
"""

import contextlib
import datetime as dt
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from cotenant_e2e import installation, processes, waiting
from cotenant_e2e.benchmark import handlers, listing, objects, times, world

READY_SECONDS: Final = 120


@dataclass(frozen=True)
class Measurement:
    """One size. `start_seconds`: from the start of the process until it is ready; memory: resident, after all of it.

    `filters` are over HTTP on loopback, `handlers` without it.
    """

    size: world.Size
    start_seconds: float
    memory_mib: int
    filters: Sequence[times.Times]
    handlers: Sequence[times.Times]
    events_per_second: float

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "nodes": self.size.nodes,
            "simulatedGPUs": self.size.nodes * objects.GPUS_PER_NODE,
            "placedPods": self.size.pods,
            "startSeconds": round(self.start_seconds, 2),
            "memoryMiB": self.memory_mib,
            "eventsPerSecond": round(self.events_per_second),
            "filter": [one.to_object() for one in self.filters],
            "filterHandler": [one.to_object() for one in self.handlers],
        }


def measure(size: world.Size) -> Measurement:
    """Start an extender, ask it, stop it."""
    pages = world.pages(size, now=world.timestamp(now()))
    with listing.Listing(pages) as server, _extender(server.port) as (process, port, seconds):
        filters = list(_filters(port, size))
        memory = process.rss_mib()
    whole = handlers.Whole(pages, size)
    events = whole.events_per_second()
    found = list(whole.filters())
    del whole
    return Measurement(size, seconds, memory, filters, found, events)


@contextlib.contextmanager
def _extender(server: int) -> Iterator[tuple[processes.Process, int, float]]:
    """Yield a process; its port, and the seconds until it served."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig, port = Path(directory) / "kubeconfig", _free_port()
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(server)))
        argv = [str(installation.COTENANT), "extender", "--assume-leader", "--kubeconfig", str(kubeconfig)]
        began = time.monotonic()
        with subprocess.Popen([*argv, "--port", str(port)], stderr=subprocess.DEVNULL) as started:
            try:
                waiting.wait_until(lambda: _serves(port), "serving extender", READY_SECONDS)
                yield processes.Process.of(started.pid), port, time.monotonic() - began
            finally:
                started.send_signal(signal.SIGTERM)


def _filters(port: int, size: world.Size) -> Iterator[times.Times]:
    """Pods that the extender learns of from the request: one that fits, and one that fits nowhere."""
    nodes = [str(node["metadata"]["name"]) for node in objects.node_list(size.nodes)]
    for what in (times.Asked.FITS, times.Asked.NOWHERE):
        for count in sorted({min(500, size.nodes), size.nodes}):
            bodies = [
                orjson.dumps({"Pod": world.waiting_pod(number, share=what.share), "NodeNames": nodes[-count:]})
                for number in range(handlers.FIRST, handlers.FIRST + handlers.REQUESTS)
            ]
            yield times.of(what, count, _asked(port, bodies))


def _asked(port: int, bodies: Sequence[bytes]) -> list[float]:
    """Milliseconds of each answer to filter, on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found = []
    with contextlib.closing(connection):
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for body in bodies:
            began = time.perf_counter()
            connection.request("POST", "/scheduler/filter", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
            found.append(1e3 * (time.perf_counter() - began))
    return found


def _serves(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/readyz")
        return b'"serving":true' in connection.getresponse().read()
    return False


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "none"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def now() -> dt.datetime:
    """Return a quarter of an hour ahead: a clock that runs ahead counts as the reader's."""
    return dt.datetime.now(dt.UTC) + dt.timedelta(minutes=15)


CORES: Final = os.cpu_count() or 1
