"""Helm on a cluster of this kit; what it keeps for itself lies in the cluster's folder."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors, names
from cotenant_e2e.cluster import Cluster

SECONDS: Final = 240
RELEASE: Final = "cotenant"


class HelmError(errors.CotenantError):
    """Helm failed. `said`: what it wrote to its standard error."""

    def __init__(self, arguments: Sequence[str], said: str) -> None:
        self.said = said
        super().__init__(f"helm {' '.join(arguments)}: {said.strip()}")


@dataclass(frozen=True)
class Remote:
    """A chart in a registry.

    Args:
        reference: `oci://HOST/FOLDER/NAME`.
        version: of the chart.
        logins: a file of docker's form with the registry's user.
        ca: certificate of the authority that signed the registry's.
    """

    reference: str
    version: str
    logins: Path
    ca: Path

    @property
    def words(self) -> tuple[str, ...]:
        """Return how a command of helm's names the chart."""
        reaching = ("--registry-config", str(self.logins), "--ca-file", str(self.ca))
        return (self.reference, "--version", self.version, *reaching)


Chart = Path | Remote
"""A chart's folder, or its archive, or one in a registry."""


@dataclass(frozen=True)
class Helm:
    """As administrator of a cluster. `program`: see `binaries.find`."""

    cluster: Cluster
    program: Path

    def run(self, *arguments: str) -> str:
        """Return what helm prints, and after it the logs of hooks; in the namespace of the release.

        Raises:
            HelmError: it failed.
        """
        command = [str(self.program), *arguments, "--namespace", names.RELEASE_NAMESPACE]
        homes = {
            f"HELM_{kind}_HOME": str(self.cluster.directory / "helm" / kind) for kind in ("CACHE", "CONFIG", "DATA")
        }
        environment = {**os.environ, **homes, "KUBECONFIG": str(self.cluster.kubeconfig())}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS + 30
        )
        if done.returncode:
            raise HelmError(arguments, done.stderr)
        return done.stdout + done.stderr

    def install(self, chart: Chart, *settings: str) -> str:
        """Install a chart; returns when everything is ready. `settings`: `key=value`."""
        return self.run("install", RELEASE, *_words(chart), *_flags(settings))

    def upgrade(self, chart: Chart, *settings: str) -> str:
        """Upgrade to a chart; returns when everything is ready."""
        return self.run("upgrade", RELEASE, *_words(chart), *_flags(settings))

    def change(self, chart: Chart, *settings: str) -> str:
        """Return the same with these values beside those that the release has, over what others have set.

        Returns at once.
        """
        flags = ("--reset-then-reuse-values", "--force-conflicts")
        return self.run("upgrade", RELEASE, *_words(chart), *flags, *_set(settings))

    def rollback(self, revision: int) -> str:
        """Back to a revision; returns when everything is ready."""
        return self.run("rollback", RELEASE, str(revision), *_flags(()))

    def package(self, chart: Path, *, version: str, folder: Path) -> Path:
        """Pack a chart under another version, of the chart and of the images; the archive."""
        self.run("package", str(chart), "--version", version, "--app-version", version, "--destination", str(folder))
        return folder / f"{chart.name}-{version}.tgz"


def _words(chart: Chart) -> tuple[str, ...]:
    return chart.words if isinstance(chart, Remote) else (str(chart),)


def _flags(settings: Sequence[str]) -> list[str]:
    return ["--wait", "--timeout", f"{SECONDS}s", *_set(settings)]


def _set(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
