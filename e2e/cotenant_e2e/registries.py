"""Runs a container registry on this machine, over TLS, open or for one user. Pushes nothing to it."""

import datetime as dt
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bcrypt
import yaml

from cotenant_e2e import binaries, certificates, files, ports, processes, progress, versions, waiting
from cotenant_e2e.releasing import credentials
from cotenant_e2e.releasing.credentials import Credentials
from cotenant_e2e.releasing.registry import Access

SECONDS: Final = 30
PORT: Final = "registry"
WITH_PARENT: Final = ("setpriv", "--pdeathsig", "TERM")
NO_TRACES: Final = {"OTEL_TRACES_EXPORTER": "none"}
"""Otherwise the registry looks for a collector of traces, and complains."""
ROUNDS: Final = 4
"""Of bcrypt, the least that it takes: the registry computes one hash for every request."""


@dataclass(frozen=True)
class Running:
    """A registry that answers. `folder`: everything of it, its data included."""

    folder: Path
    access: Access

    @property
    def host(self) -> str:
        """Return its address and port, as references name them."""
        return self.access.host

    @property
    def ca(self) -> Path:
        """Return the certificate of the authority that signed the registry's."""
        return self.folder / "ca.crt"

    @property
    def logins(self) -> Path:
        """Return a file of docker's form with the registry's user; for helm and cosign, too."""
        return self.folder / "docker" / credentials.FILE

    def blob(self, digest: str) -> Path:
        """Return the file in which the registry keeps a blob or manifest, for tests that change it."""
        plain = digest.removeprefix("sha256:")
        return self.folder / "data" / "docker" / "registry" / "v2" / "blobs" / "sha256" / plain[:2] / plain / "data"


@contextmanager
def serve(folder: Path, *, address: str = ports.LOOPBACK, user: Credentials | None = None) -> Iterator[Running]:
    """Yield a registry whose data is in this folder, for the block.

    Args:
        folder: made where it is missing.
        address: an IP address of this machine.
        user: the only one who may read or write; None: everybody may.

    Raises:
        PermanentError: the program cannot be built or started.
        NotReadyError: it does not answer in time.
    """
    shown = progress.PlainProgress(sys.stderr)
    found = binaries.find(environment=os.environ, progress=shown, programs=(versions.REGISTRY,))
    folder.mkdir(parents=True, exist_ok=True)
    held = ports.Ports(address)
    try:
        port = held.hold(PORT, ports.free())
        running = Running(folder, Access(f"{address}:{port}", folder / "ca.crt", user))
        _write(running, address)
        # Ends with this process, however that ends.
        argv = (*WITH_PARENT, str(found[versions.REGISTRY.name]), "serve", str(folder / "config.yml"))
        process = processes.start(argv, log=folder / "log", environment=NO_TRACES)
        try:
            waiting.wait_until(lambda: _answers(running, process), f"registry at {running.host}", SECONDS)
            yield running
        finally:
            process.stop()
    finally:
        held.close()


def _write(running: Running, address: str) -> None:
    """Write certificates, users and configuration."""
    authority = certificates.Authority(dt.datetime.now(dt.UTC))
    certificate, key = authority.server("registry", [address])
    running.ca.write_bytes(authority.pem)
    (running.folder / "tls.crt").write_bytes(certificate)
    files.write_private(running.folder / "tls.key", key)
    user = running.access.user
    if user:
        hashed = bcrypt.hashpw(user.password.encode(), bcrypt.gensalt(ROUNDS)).decode()
        files.write_private(running.folder / "htpasswd", f"{user.user}:{hashed}\n".encode())
        credentials.write(running.logins, running.host, user)
    (running.folder / "config.yml").write_text(yaml.safe_dump(configuration(running)))


def configuration(running: Running) -> dict[str, Any]:
    """Return what the registry reads at its start."""
    folder = running.folder
    found: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {
            "addr": running.host,
            "tls": {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")},
        },
    }
    if running.access.user:
        found["auth"] = {"htpasswd": {"realm": "cotenant", "path": str(folder / "htpasswd")}}
    return found


def _answers(running: Running, process: processes.Process) -> bool:
    if not process.alive():
        raise waiting.NotReadyError(f"the registry ended: {processes.last_line(running.folder / 'log')}")
    context = ssl.create_default_context(cafile=str(running.ca))
    try:
        with urllib.request.urlopen(f"https://{running.host}/v2/", context=context, timeout=SECONDS):
            return True
    except urllib.error.HTTPError as error:
        # A registry that asks for a user answers all the same.
        return error.code == 401
    except OSError:
        return False
