"""The images as they are shipped: small, without what builds them, each as its own user, with true package lists."""

import json
import re

import pytest

from cotenant_e2e.imaging import archives, catalog
from cotenant_e2e.imaging.archives import Contents
from cotenant_e2e.imaging.build import Built

NODE_MIB = 120
OPEN = {"tmp", "var/tmp", "var/lock"}
"""As in any Debian; with a read-only root file system these are closed, too, but for what the chart mounts."""
LABELS = {"title", "description", "licenses", "version"}
TOOLS = re.compile(r"(^|/)s?bin/(pip|uv|apt|apt-get|dpkg|gcc|sh|bash|busybox|perl)$")
LEFT_OVERS = re.compile(r"(^|/)(\.cache|__pip__)(/|$)|^(root|var/cache|var/lib/apt)/.|^run/secrets")


@pytest.fixture(params=[image.name for image in catalog.IMAGES], scope="module")
def one(request: pytest.FixtureRequest, built: list[Built]) -> tuple[Built, Contents]:
    """One image, and what is in it."""
    (found,) = (each for each in built if each.image.name == request.param)
    return found, archives.read(found.archive)


def test_the_image_of_nodes_is_small(built: list[Built]) -> None:
    (node,) = (each for each in built if each.image.name == "node")
    assert archives.read(node.archive).unpacked_mib < NODE_MIB


def test_an_image_holds_no_shell_no_package_manager_and_no_left_overs(one: tuple[Built, Contents]) -> None:
    _, contents = one
    assert [name for name in contents.names if TOOLS.search(name)] == []
    assert [name for name in contents.files if LEFT_OVERS.search(name)] == []


def test_an_image_says_what_it_is_and_who_runs_it(one: tuple[Built, Contents]) -> None:
    image, contents = one
    labels = {
        key.rpartition(".")[2] for key in contents.config["Labels"] if key.startswith("org.opencontainers.image.")
    }
    assert labels == LABELS
    assert contents.config["User"] == f"{image.image.user}:{image.image.user}"
    assert contents.config["Entrypoint"] == ["/opt/cotenant/bin/cotenant"]


def test_the_list_beside_an_image_has_every_package_of_its_lock_and_the_interpreter(
    one: tuple[Built, Contents],
) -> None:
    image, _ = one
    listed = {each["purl"].partition("?")[0] for each in json.loads(image.bom.read_text())["components"]}
    locked = re.findall(r"^([\w.-]+)==([^\s;\\]+)", image.image.lock.read_text(), re.MULTILINE)
    assert {f"pkg:pypi/{name}@{version}" for name, version in locked} <= listed
    assert any(url.startswith("pkg:deb/debian/python3.11-minimal@") for url in listed)
    assert f"pkg:pypi/cotenant@{catalog.VERSION}" in listed


def test_nothing_in_an_image_can_be_written_by_others(one: tuple[Built, Contents]) -> None:
    _, contents = one
    assert contents.open_to_all == OPEN
