"""The programs that build images, docker or buildah: command lines, and running them. Decides nothing about images."""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TextIO

from cotenant_api import errors
from cotenant_e2e import binaries, commandline

PACKAGES: Final = "scripts/install-image-packages"
NATIVE: Final = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
"""The architecture of this machine, as images name it."""
NETWORK_WORDS: Final = ("proxy", "PROXY")
"""Of environment variables that say how to reach the network; both engines take those of their caller."""


@dataclass(frozen=True)
class Request:
    """One image to build.

    Args:
        reference: its name on this machine.
        dockerfile: how it is built.
        context: the folder that the Dockerfile copies from.
        base: the image that the steps run in.
        labels: in addition to those of the Dockerfile.
        secrets: id -> file.
        architecture: such as `arm64`; empty: that of this machine.
    """

    reference: str
    dockerfile: Path
    context: Path
    base: str
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    architecture: str = ""


class Engine(Protocol):
    """Builds and keeps images."""

    @property
    def name(self) -> str:
        """Of the program."""

    def pull(self, reference: str) -> bool:
        """Have the image here, from its registry unless it is here; whether that worked."""

    def import_(self, archive: Path, reference: str) -> None:
        """Make an image of one tar of a root file system."""

    def build(self, request: Request, log: TextIO) -> None:
        """Build an image; layers that are there already are kept."""

    def save(self, reference: str, archive: Path) -> None:
        """Write an image as a docker archive."""


def find() -> Engine:
    """Docker where its engine answers, else buildah.

    Raises:
        PermanentError: neither is here, or buildah alone and this process is not root.
    """
    if commandline.ask(["docker", "info", "--format", "{{.ServerVersion}}"]):
        return Docker()
    if commandline.ask(["buildah", "--version"]):
        if os.geteuid() != 0:
            raise errors.PermanentError("no Docker engine answers, and buildah builds images as root: run this as root")
        return Buildah(binaries.cache_directory(os.environ) / "images")
    raise errors.PermanentError(f"no Docker engine answers, and there is no buildah: run {PACKAGES} as root")


@dataclass(frozen=True)
class Docker:
    """A Docker engine; BuildKit, for secrets."""

    name: str = "docker"

    def pull(self, reference: str) -> bool:
        """See `Engine`."""
        here = commandline.ask(["docker", "image", "inspect", "--format", "{{.Id}}", reference])
        return bool(here) or _succeeds(["docker", "pull", "--quiet", reference])

    def import_(self, archive: Path, reference: str) -> None:
        """See `Engine`."""
        _run(["docker", "import", str(archive), reference])

    def build(self, request: Request, log: TextIO) -> None:
        """See `Engine`."""
        proxies = [word for name in os.environ if name.endswith(NETWORK_WORDS) for word in ("--build-arg", name)]
        environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
        _run(["docker", "build", *proxies, *_arguments(request)], log=log, environment=environment)

    def save(self, reference: str, archive: Path) -> None:
        """See `Engine`."""
        _run(["docker", "save", "--output", str(archive), reference])


@dataclass(frozen=True)
class Buildah:
    """Buildah as root without user namespaces. `storage`: the folder of everything that it keeps."""

    storage: Path
    name: str = "buildah"

    def _command(self, verb: str, *arguments: str) -> list[str]:
        # Its default folders are podman's, and maybe on a file system that cannot be the base of overlays.
        folders = ("--root", f"{self.storage}/storage", "--runroot", f"{self.storage}/run")
        return ["buildah", *folders, verb, *arguments]

    def pull(self, reference: str) -> bool:
        """See `Engine`."""
        here = commandline.ask(self._command("images", "--quiet", reference))
        return bool(here) or _succeeds(self._command("pull", "--quiet", reference))

    def import_(self, archive: Path, reference: str) -> None:
        """See `Engine`."""
        container = _run(self._command("from", "--quiet", "scratch")).strip()
        try:
            _run(self._command("add", "--quiet", container, str(archive), "/"))
            _run(self._command("commit", "--quiet", container, reference))
        finally:
            _run(self._command("rm", container))

    def build(self, request: Request, log: TextIO) -> None:
        """See `Engine`."""
        flags = ["--layers", "--isolation=chroot", "--network=host", "--format=oci", "--pull-never"]
        if request.architecture:
            # BuildKit knows it by itself; buildah would look for a base of the other architecture.
            flags += ["--build-arg", f"BUILDPLATFORM=linux/{NATIVE}"]
        _run(self._command("build", *flags, *_arguments(request)), log=log)

    def save(self, reference: str, archive: Path) -> None:
        """See `Engine`."""
        archive.unlink(missing_ok=True)
        _run(self._command("push", "--quiet", reference, f"docker-archive:{archive}:{reference}"))


def _arguments(request: Request) -> list[str]:
    """Return what both engines understand."""
    words = ["--tag", request.reference, "--file", str(request.dockerfile), "--build-arg", f"BASE={request.base}"]
    words += [word for key, value in request.labels.items() for word in ("--label", f"{key}={value}")]
    words += [word for key, path in request.secrets.items() for word in ("--secret", f"id={key},src={path}")]
    words += ["--platform", f"linux/{request.architecture}"] if request.architecture else []
    return [*words, str(request.context)]


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str], *, log: TextIO | None = None, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        stdout=log or subprocess.PIPE,
        stderr=subprocess.STDOUT if log else subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        reason = f"{_complaint(Path(log.name))}: see {log.name}" if log else errors.shortened(done.stderr.strip())
        raise errors.PermanentError(f"{command[0]} failed with exit code {done.returncode}: {reason}")
    return done.stdout or ""


def _complaint(log: Path) -> str:
    """Return the line of a failed build's log that says most: the last one that begins with "error", else the last."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    loud = [line for line in lines if line.lower().startswith("error")]
    return errors.shortened((loud or lines or ["it says nothing"])[-1])
