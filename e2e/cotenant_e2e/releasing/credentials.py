"""Reads a registry's user and password from where `docker login` and `helm registry login` keep them."""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cotenant_api import errors

FILE = "config.json"


@dataclass(frozen=True)
class Credentials:
    """A user of a registry."""

    user: str
    password: str = field(repr=False)


def default_file(environment: Mapping[str, str]) -> Path:
    """Return the file that docker, helm and cosign share."""
    named = environment.get("DOCKER_CONFIG")
    return Path(named or Path(environment.get("HOME", "/")) / ".docker") / FILE


def read(file: Path, host: str) -> Credentials | None:
    """Return the user of a registry; None where the file has none for this host.

    Raises:
        InvalidInputError: the file or its entry cannot be read.
        PermanentError: the helper that keeps the password fails.
    """
    try:
        document = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise errors.InvalidInputError(str(file), str(error), "log in again: docker login HOST") from error
    helper = document.get("credHelpers", {}).get(host) or document.get("credsStore")
    if helper:
        return _of_helper(f"docker-credential-{helper}", host)
    entry = document.get("auths", {}).get(host, {}).get("auth")
    return _decoded(entry, file) if entry else None


def write(file: Path, host: str, credentials: Credentials) -> None:
    """Write a file with this user alone; only its owner reads it."""
    pair = base64.b64encode(f"{credentials.user}:{credentials.password}".encode()).decode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"auths": {host: {"auth": pair}}}))


def _decoded(entry: str, file: Path) -> Credentials:
    try:
        user, _, password = base64.b64decode(entry).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(str(file), "auth", "log in again: docker login HOST") from error
    return Credentials(user, password)


def _of_helper(program: str, host: str) -> Credentials | None:
    """Ask the program that keeps the password. It answers with an error where it has none for this host."""
    try:
        done = subprocess.run(
            [program, "get"], input=host, capture_output=True, text=True, check=False, env=dict(os.environ)
        )
    except OSError as error:
        raise errors.PermanentError(f"cannot run {program}, which keeps the passwords: {error.strerror}") from error
    if done.returncode:
        return None
    answer = json.loads(done.stdout)
    return Credentials(answer["Username"], answer["Secret"])
