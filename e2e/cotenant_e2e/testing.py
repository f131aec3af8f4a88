"""One control plane for a whole test session, stopped at its end however that comes. Knows nothing of pytest."""

import dataclasses
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cotenant_e2e import binaries, configuration, progress, rights, startup, versions
from cotenant_e2e.cluster import Cluster

RECORD: Final = "COTENANT_RECORD_RIGHTS"
"""Environment variable: a folder into which each control plane leaves what our accounts used of their rights."""


@contextmanager
def control_plane(directory: Path, options: startup.Options = startup.DEFAULTS) -> Iterator[Cluster]:
    """Yield a cluster in this folder, for the block.

    It is stopped even when this process is killed in the middle.

    Raises:
        InvalidInputError, PermanentError, NotReadyError: see `binaries.find` and `startup.start`.
    """
    record = os.environ.get(RECORD)
    if record:
        options = dataclasses.replace(options, audited=rights.ALL)
    wanted = (*versions.PROGRAMS, *(versions.NODE_PROGRAMS if options.node else ()))
    programs = binaries.find(environment=os.environ, progress=progress.PlainProgress(sys.stderr), programs=wanted)
    with _guard(directory), startup.start(directory, programs, options) as cluster:
        try:
            yield cluster
        finally:
            if record:
                _keep(cluster.settings.audit_log, Path(record))


def _keep(log: Path, folder: Path) -> None:
    """Keep the lines that say which rights were used, each right once: logs are large."""
    folder.mkdir(parents=True, exist_ok=True)
    kept: dict[rights.Right, str] = {}
    with log.open() as lines:
        for line in lines:
            kept |= dict.fromkeys(rights.used([line]) - kept.keys(), line)
    (folder / f"{uuid.uuid4().hex}.log").write_text("".join(kept.values()))


@contextmanager
def _guard(directory: Path) -> Iterator[None]:
    """Yield a process that stops the cluster as soon as this one has ended."""
    argv = [sys.executable, "-m", "cotenant_e2e", "down", "--dir", str(directory), "--when-stdin-ends"]
    environment = os.environ | {"PYTHONPATH": str(configuration.REPOSITORY / "e2e")}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment, start_new_session=True):
        yield
