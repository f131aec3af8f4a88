"""One control plane for a whole test session, stopped at its end however that comes. Knows nothing of pytest."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant_e2e import binaries, configuration, progress, startup, versions
from cotenant_e2e.cluster import Cluster


@contextmanager
def control_plane(directory: Path, options: startup.Options = startup.DEFAULTS) -> Iterator[Cluster]:
    """A cluster in this folder, for the block.

    It is stopped even when this process is killed in the middle.

    Raises:
        InvalidInputError, PermanentError, NotReadyError: see `binaries.find` and `startup.start`.
    """
    wanted = (*versions.PROGRAMS, *(versions.NODE_PROGRAMS if options.node else ()))
    programs = binaries.find(environment=os.environ, progress=progress.PlainProgress(sys.stderr), programs=wanted)
    with _guard(directory), startup.start(directory, programs, options) as cluster:
        yield cluster


@contextmanager
def _guard(directory: Path) -> Iterator[None]:
    """A process that stops the cluster as soon as this one has ended."""
    argv = [sys.executable, "-m", "cotenant_e2e", "down", "--dir", str(directory), "--when-stdin-ends"]
    environment = os.environ | {"PYTHONPATH": str(configuration.REPOSITORY / "e2e")}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment, start_new_session=True):
        yield
