"""Builds with a go command that only pretends: what lands in the cache, and what is said when it fails."""

import threading
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import configuration, files, recipes
from cotenant_e2e.building import Builder
from e2e import fakes

TOOLS = configuration.KUBERNETES / "tools"
ETCD, KUBECTL = (next(target for target in recipes.TARGETS if target.program == name) for name in ("etcd", "kubectl"))


def builder(tmp_path: Path) -> Builder:
    variables = {"PATH": f"{tmp_path}/go:/usr/bin:/bin", "HOME": str(tmp_path), "GOCACHE": str(tmp_path)}
    return Builder(TOOLS, tmp_path / "cache", variables, fakes.RecordedProgress())


def test_a_program_appears_in_the_cache_when_it_is_whole(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "go" / "go")
    builder(tmp_path).build([ETCD])
    assert builder(tmp_path).path(ETCD).read_text() == "built\n"


def test_a_failed_build_leaves_no_program(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "go" / "go", build='echo half > "$output"; echo "main.go:1: wrong" >&2; exit 1')
    with pytest.raises(errors.PermanentError, match=r"go build failed \('main\.go:1: wrong'\)"):
        builder(tmp_path).build([ETCD])
    assert not builder(tmp_path).path(ETCD).exists()


def test_what_a_failed_build_left_does_not_disturb_the_next(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "go" / "go", build='echo half > "$output"; exit 1')
    with pytest.raises(errors.PermanentError):
        builder(tmp_path).build([ETCD])
    fakes.write_go(tmp_path / "go" / "go")
    builder(tmp_path).build([ETCD])
    assert builder(tmp_path).path(ETCD).read_text() == "built\n"


def test_the_output_of_a_failed_build_is_kept_for_reading(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "go" / "go", build="echo first; echo last; exit 1")
    with pytest.raises(errors.PermanentError, match=r"build\.log"):
        builder(tmp_path).build([ETCD])
    assert (tmp_path / "cache" / "build.log").read_text() == "first\nlast\n"


def test_a_second_build_waits_for_the_first_and_builds_nothing(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "go" / "go", build="exit 1")
    second = builder(tmp_path)
    second.path(ETCD).parent.mkdir(parents=True)
    thread = threading.Thread(target=second.build, args=([ETCD],))
    with files.locked(tmp_path / "cache" / "build.lock"):
        thread.start()
        second.path(ETCD).write_text("built by the first")
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert second.path(ETCD).read_text() == "built by the first"


def test_the_numbers_of_downloaded_modules_and_of_compiled_packages_are_shown(tmp_path: Path) -> None:
    listed = "echo go: downloading k8s.io/api v0.36.4; echo 'fmt '; echo 'net/http '; echo 'k8s.io/api v0.36.4'"
    fakes.write_go(tmp_path / "go" / "go", listed=listed, build='echo "$program"; echo built > "$output"')
    progress = fakes.RecordedProgress()
    Builder(TOOLS, tmp_path / "cache", builder(tmp_path).environment, progress).build([ETCD, KUBECTL])
    assert progress.details == ["1 modules", *(f"{count} of 3 packages" for count in (1, 2))]


def test_a_cache_that_cannot_be_made_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(errors.PermanentError, match="set XDG_CACHE_HOME to a folder that can be written"):
        builder(tmp_path).build([ETCD])


def test_too_little_space_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(errors.PermanentError, match=r"MiB are free at .* 1000000000 MiB are needed: free some"):
        files.require_space(tmp_path / "not" / "yet", mib=1_000_000_000, remedy="free some")


def test_space_that_is_there_is_enough(tmp_path: Path) -> None:
    files.require_space(tmp_path / "not" / "yet", mib=1, remedy="free some")


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    fakes.write_go(tmp_path / "go" / "go")
    abandoned = builder(tmp_path).path(ETCD).with_name(".etcd.1.partial")
    abandoned.parent.mkdir(parents=True)
    abandoned.touch()
    builder(tmp_path).build([ETCD])
    assert not abandoned.exists()
