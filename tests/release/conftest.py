"""Fixtures: a real registry over TLS, once open and once for one user; images of a few bytes; real helm and cosign."""

import dataclasses
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from cotenant_e2e import binaries, progress, registries, versions
from cotenant_e2e.imaging import catalog
from cotenant_e2e.imaging.build import Built
from cotenant_e2e.registries import Running
from cotenant_e2e.releasing import place, publishing
from cotenant_e2e.releasing.chart import Helm
from cotenant_e2e.releasing.credentials import Credentials
from cotenant_e2e.releasing.publishing import Released, Tools
from cotenant_e2e.releasing.registry import Registry
from cotenant_e2e.releasing.signing import PASSWORD, PUBLIC, Cosign
from release import small

ROBOT = Credentials("robot", "not a secret")
VERSION = "1.2.3"
ARCHITECTURES = ("amd64", "arm64")
BOM = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": []}


def silent() -> progress.Progress:
    """Return what shows nothing."""
    return progress.PlainProgress(io.StringIO())


def images(folder: Path, text: str) -> dict[str, list[Built]]:
    """Write every image of the catalog for both architectures, with its package list. `text`: what is in them."""
    found: dict[str, list[Built]] = {}
    for architecture in ARCHITECTURES:
        for image in catalog.IMAGES:
            content = f"{image.name} {architecture} {text}"
            archive = small.docker_archive(folder / architecture / f"{image.name}.tar", architecture, content)
            built = Built(image, VERSION, archive, fresh=True)
            built.bom.write_text(json.dumps(BOM))
            found.setdefault(architecture, []).append(built)
    return found


@dataclass(frozen=True)
class Yard:
    """A registry, and what publishes to it."""

    running: Running
    tools: Tools
    folder: Path

    @property
    def cosign(self) -> Cosign:
        """Return what signs and verifies."""
        assert self.tools.cosign
        return self.tools.cosign

    @property
    def public(self) -> Path:
        """Return the key that verifies."""
        assert self.tools.key
        return self.tools.key.with_name(PUBLIC)

    def publish(self, folder: str, *, text: str = "as built", signed: bool = True) -> Released:
        """Release images with this text in them into a folder of the registry."""
        out = self.folder / folder
        tools = self.tools if signed else dataclasses.replace(self.tools, key=None)
        order = publishing.Order(
            place.parse(f"{self.running.host}/{folder}"), VERSION, out / "out", self.folder / "layers"
        )
        with Registry(self.running.access) as registry:
            return publishing.publish(
                order, images(out / "built", text), registry=registry, tools=tools, progress=silent()
            )


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """Return helm and cosign; they are built where they are missing."""
    wanted = (versions.HELM, versions.COSIGN)
    return binaries.find(environment=os.environ, progress=progress.PlainProgress(sys.stderr), programs=wanted)


@pytest.fixture(scope="session")
def key(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key pair for these tests; return the private key."""
    folder = tmp_path_factory.mktemp("keys")
    Cosign(programs["cosign"], folder / "config.json", environment={PASSWORD: "x"}).make_keys(folder)
    return folder / "cosign.key"


@pytest.fixture(scope="session", params=[None, ROBOT], ids=["open", "private"])
def yard(
    request: pytest.FixtureRequest, programs: Mapping[str, Path], key: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    """Yield an open registry, then a private one."""
    folder = tmp_path_factory.mktemp("registry")
    with registries.serve(folder / "registry", user=request.param) as running:
        reaching = (running.logins, running.ca)
        cosign = Cosign(programs["cosign"], *reaching, environment={PASSWORD: "x"})
        yield Yard(running, Tools(Helm(programs["helm"], *reaching), cosign, key), folder)


@pytest.fixture(scope="session")
def released(yard: Yard) -> Released:
    """Make a release that no test changes."""
    return yard.publish("team/cotenant")
