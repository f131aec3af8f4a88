"""Signs what a release has pushed, and verifies signatures, by cosign with a key pair. Writes to no public log."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant_api import errors

PASSWORD: Final = "COSIGN_PASSWORD"  # noqa: S105 - the name of cosign's variable
KEY: Final = "cosign.key"
PUBLIC: Final = "cosign.pub"
BOM: Final = "cyclonedx"
"""What cosign calls the kind of document that a package list is."""
_PRIVATE: Final = ("--use-signing-config=false", "--tlog-upload=false", "--yes")
"""Signatures stay in the registry: nothing is written to a public log, and no identity provider is asked."""


class SignatureError(errors.CotenantError):
    """Something is not signed with the key, or is not what was signed."""


@dataclass(frozen=True)
class Cosign:
    """The program, and how it reaches the registry.

    Args:
        program: see `binaries.find`.
        logins: a file of docker's form, called `config.json`.
        ca: certificates of the registry's authority; None: those of the system.
        environment: further variables, such as the key's password.
    """

    program: Path
    logins: Path
    ca: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def make_keys(self, folder: Path) -> None:
        """Write a key pair into a folder, `cosign.key` and `cosign.pub`; the key is encrypted with the password."""
        self._run("generate-key-pair", folder=folder)

    def sign(self, reference: str, key: Path) -> None:
        """Sign a manifest by its digest, and every manifest that it lists."""
        self._run("sign", "--key", str(key), "--recursive", *_PRIVATE, *self._trust(), reference)

    def attest(self, reference: str, key: Path, bom: Path) -> None:
        """Sign a package list and attach it to an image."""
        document = ("--type", BOM, "--predicate", str(bom))
        self._run("attest", "--key", str(key), *document, *_PRIVATE, *self._trust(), reference)

    def verify(self, reference: str, public: Path) -> None:
        """Return when a reference leads to something that was signed with the key.

        Raises:
            SignatureError: it does not.
        """
        self._verified("verify", reference, public)

    def verify_bom(self, reference: str, public: Path) -> None:
        """Return when a package list is attached to an image, signed with the key.

        Raises:
            SignatureError: none is.
        """
        self._verified("verify-attestation", reference, public, "--type", BOM)

    def _verified(self, verb: str, reference: str, public: Path, *more: str) -> None:
        words = (verb, "--key", str(public), "--insecure-ignore-tlog=true", *more, *self._trust(), reference)
        done = self._done(*words)
        if done.returncode:
            raise SignatureError(_explained(verb, done.stderr))

    def _trust(self) -> list[str]:
        return ["--registry-cacert", str(self.ca)] if self.ca else []

    def _run(self, *arguments: str, folder: Path | None = None) -> None:
        done = self._done(*arguments, folder=folder)
        if done.returncode:
            raise errors.PermanentError(_explained(arguments[0], done.stderr))

    def _done(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DOCKER_CONFIG": str(self.logins.parent), **self.environment}
        return subprocess.run(
            [str(self.program), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _explained(verb: str, said: str) -> str:
    """Return one line: the last that begins as cosign's errors do, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    loud = [line for line in lines if line.lower().startswith("error")]
    return f"cosign {verb} failed: {errors.shortened((loud or lines or ['it says nothing'])[-1])}"
