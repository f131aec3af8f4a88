"""A control plane with one real node, once for the session; each module installs the chart by helm as it needs it."""

import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cotenant_e2e import binaries, configuration, progress, registries, startup, testing, versions
from cotenant_e2e.helm import Helm
from cotenant_e2e.imaging import build
from cotenant_e2e.imaging.build import Built
from cotenant_e2e.node import agents, real
from cotenant_e2e.releasing.credentials import Credentials
from cotenant_standin import state
from install import releases
from install.releases import Releases
from install.site import Site
from install.team import Team

NODE = "gpu-0"
MODELS = (state.H200,) * 2
AGENT_PORT = 9476
IMAGES = configuration.REPOSITORY / ".run" / "images"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def built() -> list[Built]:
    """The images that are shipped, of this checkout; what is unchanged is not built again."""
    return build.build(build.Order(IMAGES), progress.PlainProgress(sys.stderr))


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """Return helm; it is built where it is missing."""
    shown = progress.PlainProgress(sys.stderr)
    return binaries.find(environment=os.environ, progress=shown, programs=(versions.HELM,))


@pytest.fixture(scope="session")
def published(
    built: list[Built], programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Releases]:
    """Yield two releases in a registry that only one user may read."""
    folder = tmp_path_factory.mktemp("registry")
    with registries.serve(folder / "registry", user=Credentials("robot", "not a secret")) as registry:
        yield releases.publish(built, registry, programs, folder / "release")


@pytest.fixture(scope="session")
def site(published: Releases, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield the node and its stand-in GPUs; nothing of ours is installed, and the node has none of our images."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with testing.control_plane(directory, startup.Options(node=NODE)) as cluster:
        node = real.create(cluster)
        gpus = agents.GPUs(node, AGENT_PORT)
        gpus.make(MODELS)
        made = Site(gpus, Helm(cluster, programs[versions.HELM.name]), published)
        made.prepare()
        yield made


@pytest.fixture
def team(site: Site) -> Iterator[Team]:
    """A namespace for workloads; at the end it is empty."""
    with Team(site, f"team-{next(_numbers)}") as made:
        yield made
