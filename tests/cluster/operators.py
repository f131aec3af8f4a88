"""Operators as processes that begin in a moment: forked from one that has loaded all, killed by their PID."""

import argparse
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from cluster.narrow import Proxy, View
from cotenant_api import names
from cotenant_e2e import installation, kubeconfigs
from cotenant_e2e.cluster import Cluster
from cotenant_operator import command
from cotenant_operator.loop import events, leading

SECONDS = 30
LEADS_SECONDS = 600


class Operators:
    """Starts operators that see one namespace each, with the rights of the operator's ServiceAccount."""

    def __init__(self, cluster: Cluster, proxy: Proxy) -> None:
        self._cluster, self._proxy = cluster, proxy
        self._token = cluster.token(names.RELEASE_NAMESPACE, names.OPERATOR_ACCOUNT)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["cotenant_operator.service", "cotenant_operator.command"])

    @contextmanager
    def running(self, view: View, *, name: str) -> Iterator[BaseProcess]:
        """An operator for the block; it is killed at the end, or when its view says so."""
        kubeconfig = self._kubeconfig(name, self._proxy.add(name, view))
        parser = argparse.ArgumentParser()
        command.configure(parser)
        arguments = parser.parse_args(["--kubeconfig", str(kubeconfig), "--namespace", names.RELEASE_NAMESPACE])
        process = self._context.Process(target=_operate, args=(arguments,), daemon=True)
        process.start()
        view.end = process.kill
        try:
            yield process
        finally:
            process.kill()
            process.join(SECONDS)
            process.close()

    def _kubeconfig(self, name: str, url: str) -> Path:
        path = self._cluster.settings.kubeconfig(f"operator-{name}")
        server = kubeconfigs.Server(url, (self._cluster.settings.pki / "ca.crt").read_bytes())
        kubeconfigs.write(path, kubeconfigs.with_token(server, user="operator", token=self._token, namespace="default"))
        return path


def _operate(arguments: argparse.Namespace) -> None:
    """One that waits for its events: on a loaded machine they would be kept for later, and lost when it is killed.

    Nor does it doubt its Lease there, which the proxy gives to whoever asks.
    """
    events.SECONDS = SECONDS  # type: ignore[misc]
    leading.RENEW_SECONDS = LEADS_SECONDS  # type: ignore[misc]
    command.run(arguments)


def high_water_mib(cluster: Cluster) -> int:
    """Of the operator's own process."""
    text = Path(f"/proc/{cluster.process(installation.OPERATOR).pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) >> 10
