"""The images: those that the chart names, made of the versions that the tests run with."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cotenant_e2e import charts
from cotenant_e2e.imaging import catalog
from cotenant_e2e.imaging.catalog import Image

ROOT = Path(__file__).parents[2]


def pinned(path: Path) -> Mapping[str, set[str]]:
    """Package -> versions of a lock: more than one where Python's version decides."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def test_every_image_that_the_chart_names_is_built_and_no_other() -> None:
    named = re.findall(r'"cotenant\.image" \(dict .*?"component" "(\w+)"\)', templates())
    assert set(named) == {image.name for image in catalog.IMAGES}


def templates() -> str:
    """All templates of the chart."""
    return "\n".join(path.read_text() for path in (charts.CHART / "templates").rglob("*.yaml"))


@pytest.mark.parametrize("image", catalog.IMAGES, ids=lambda image: image.name)
def test_an_image_has_the_versions_that_the_tests_run_with(image: Image) -> None:
    tested = pinned(ROOT / "locks" / "dev.txt")
    different = {
        name: versions for name, versions in pinned(image.lock).items() if not versions <= tested.get(name, set())
    }
    assert different == {}, "run `make lock`"


@pytest.mark.parametrize("image", catalog.IMAGES, ids=lambda image: image.name)
def test_every_package_of_an_image_is_pinned_by_hash(image: Image) -> None:
    packages = image.lock.read_text().split("==")[1:]
    assert packages
    assert all("--hash=sha256:" in text for text in packages)


@pytest.mark.parametrize("image", catalog.IMAGES, ids=lambda image: image.name)
def test_an_image_runs_as_the_user_that_the_chart_says(image: Image) -> None:
    (user,) = re.findall(r"^USER (\d+):\1$", image.dockerfile.read_text(), re.MULTILINE)
    assert int(user) == image.user


@pytest.mark.parametrize("image", catalog.IMAGES, ids=lambda image: image.name)
def test_the_base_can_be_chosen_and_is_pinned_to_a_release(image: Image) -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", image.dockerfile.read_text(), re.MULTILINE)
    assert base == catalog.BASE
    assert not base.endswith(":latest")
