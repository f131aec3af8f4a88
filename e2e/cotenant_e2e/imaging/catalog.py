"""Which images there are and what each is made of. Reads the repository's files; builds nothing."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cotenant_api
from cotenant_e2e import configuration

FOLDER: Final = configuration.REPOSITORY / "images"
REPOSITORY: Final = "localhost/cotenant"
"""Names of images on the machine that builds them. Nobody can pull by them: `localhost` is no registry of others."""
BASE: Final = "docker.io/library/debian:bookworm-slim"
"""What the Dockerfiles name where nobody names another."""
SHARED: Final = ("steps/system", "steps/check-libraries", "steps/packages.txt", "steps/dependencies", "steps/wheel")


@dataclass(frozen=True)
class Image:
    """One image. `extra`: of pyproject.toml, what it needs beside the wheel; `user`: UID that it runs as."""

    name: str
    extra: str
    user: int

    @property
    def dockerfile(self) -> Path:
        """How it is built."""
        return FOLDER / self.name / "Dockerfile"

    @property
    def lock(self) -> Path:
        """Its Python packages, each by version and hash."""
        return FOLDER / "locks" / f"{self.name}.txt"

    def reference(self, tag: str) -> str:
        """Its full name."""
        return f"{REPOSITORY}/{self.name}:{tag}"

    def inputs(self) -> tuple[Path, ...]:
        """Every file of the repository that decides what is in it, beside the wheel."""
        return (self.dockerfile, self.lock, *(FOLDER / name for name in SHARED))

    def digest(self, wheel: Path, *more: str) -> str:
        """Return what changes with anything that the image is made of. `more`: what else decides, as words."""
        digest = hashlib.sha256("\0".join((self.name, *more)).encode())
        for path in (*self.inputs(), wheel):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:16]


NONROOT: Final = 65532
IMAGES: Final = (
    Image("operator", "operator", NONROOT),
    Image("extender", "extender", NONROOT),
    Image("node", "deviceplugin", 0),
)
VERSION: Final = cotenant_api.__version__
