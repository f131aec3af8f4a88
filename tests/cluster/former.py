"""The operator of release 0.1.0, from the repository's history: what clusters have that are upgraded."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cotenant_api import names
from cotenant_e2e import charts, installation
from cotenant_e2e import client as clients
from cotenant_e2e.cluster import Cluster

COMMIT: Final = "2f54048dd183eabd54db8a810351e026afb27a47"
"""Release 0.1.0."""
PACKAGES: Final = ("api", "cli", "operator", "predictor")
_MAIN: Final = "import sys; from cotenant_api.cli import main; sys.exit(main())"


def unpacked(folder: Path) -> Path:
    """Unpack the packages of release 0.1.0 that its operator consists of."""
    archive = folder / "release.tar"
    root = charts.CHART.parents[1]
    command = ["git", "-C", str(root), "archive", f"--output={archive}", COMMIT, *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = (
            f"the repository's history does not reach back to release 0.1.0 ({done.stderr.strip()}): clone it whole"
        )
        raise RuntimeError(message)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


@contextmanager
def operator(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The operator of release 0.1.0 in the place of this release's, which is back at the end.

    Release 0.1.0 bounds nothing that its operator writes: the binding that does so now is away for as long.
    """
    bindings = clients.path_of("validatingadmissionpolicybindings", group="admissionregistration.k8s.io")
    bound = cluster.client.get(f"{bindings}/cotenant-operator-writes")
    cluster.stop_process(installation.OPERATOR)
    cluster.client.delete(f"{bindings}/cotenant-operator-writes")
    port = cluster.free_port(installation.OPERATOR)
    kubeconfig = installation.kubeconfig_of(cluster, installation.OPERATOR, names.OPERATOR_ACCOUNT)
    flags = ("operator", "--kubeconfig", str(kubeconfig), "--liveness-port", str(port))
    paths = os.pathsep.join(str(folder / package) for package in PACKAGES)
    argv = (sys.executable, "-P", "-c", _MAIN, *flags)
    health = f"http://127.0.0.1:{port}/healthz"
    cluster.start_process(installation.OPERATOR, argv, env={"PYTHONPATH": paths}, ready=health)
    try:
        yield
    finally:
        cluster.stop_process(installation.OPERATOR)
        cluster.client.create(bindings, bound | {"metadata": {"name": bound["metadata"]["name"]}})
        installation.start_operator(cluster)
