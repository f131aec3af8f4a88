"""Two releases in a private registry, pushed as `make release` does: this version and an earlier one."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cotenant_api
from cotenant_e2e import charts, progress
from cotenant_e2e.client import Json
from cotenant_e2e.helm import Remote
from cotenant_e2e.imaging import derive, engines
from cotenant_e2e.imaging.build import Built
from cotenant_e2e.imaging.derive import Change
from cotenant_e2e.registries import Running
from cotenant_e2e.releasing import place, publishing
from cotenant_e2e.releasing.chart import Helm
from cotenant_e2e.releasing.publishing import Released, Tools
from cotenant_e2e.releasing.registry import Registry

VERSION: Final = cotenant_api.__version__
EARLIER: Final = "0.0.9"
"""A version before this one: the same code, which calls itself so."""
FOLDER: Final = "team/cotenant"
PULL_SECRET: Final = "registry"
_PACKAGE: Final = "opt/cotenant/lib/python3.11/site-packages/cotenant_api"


@dataclass(frozen=True)
class Releases:
    """Two releases in the registry. They are not signed: tests/release verifies signatures."""

    registry: Running
    released: Mapping[str, Released]

    def chart(self, version: str) -> Remote:
        """Return the chart of a version."""
        reference = f"{self.released[version].order.place.charts}/{charts.CHART.name}"
        return Remote(reference, version, self.registry.logins, self.registry.ca)

    def reference(self, name: str, version: str) -> str:
        """Return an image's reference by tag and digest, as the chart names it."""
        released = self.released[version]
        repository = f"{released.order.place.host}/{released.order.place.repository(name)}"
        return f"{repository}:{version}@{released.digests[name]}"

    def tag(self, name: str, version: str) -> str:
        """Return tag and digest of an image, as `node.mps.tag` takes them."""
        return f"{version}@{self.released[version].digests[name]}"

    def version_of(self, status: Json) -> str:
        """Return the version of a running container, by the digest of its image.

        Raises:
            KeyError: it is none of a release.
        """
        named = f"{status['image']} {status['imageID']}"
        for version, released in self.released.items():
            if any(digest in named for digest in released.digests.values()):
                return version
        raise KeyError(named)


def publish(built: Sequence[Built], registry: Running, programs: Mapping[str, Path], folder: Path) -> Releases:
    """Push both versions."""
    layers = built[0].archive.with_name("layers")
    folder.mkdir(parents=True)
    helm = Helm(programs["helm"], registry.logins, registry.ca)
    where = place.parse(f"{registry.host}/{FOLDER}")
    images = {VERSION: built, EARLIER: [_earlier(each, folder) for each in built]}
    shown = progress.PlainProgress(sys.stderr)
    released = {}
    with Registry(registry.access) as client:
        for version, each in images.items():
            order = publishing.Order(where, version, folder, layers)
            released[version] = publishing.publish(
                order, {engines.NATIVE: each}, registry=client, tools=Tools(helm), progress=shown
            )
    for path in folder.glob(f"*-{EARLIER}.tar"):
        path.unlink()
    return Releases(registry, released)


def _earlier(built: Built, folder: Path) -> Built:
    """Write the image that calls itself earlier."""
    archive = folder / f"{built.image.name}-{EARLIER}.tar"
    here = Path(cotenant_api.__file__).read_text()
    text = here.replace(f'"{VERSION}"', f'"{EARLIER}"')
    change = Change({f"{_PACKAGE}/__init__.py": text}, (f"{_PACKAGE}/__pycache__/__init__.cpython-311.pyc",))
    derive.derive(built.archive, archive, reference=built.image.reference(EARLIER), change=change)
    made = Built(built.image, EARLIER, archive, fresh=True)
    shutil.copyfile(built.bom, made.bom)
    return made
