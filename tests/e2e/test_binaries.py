"""Which program is taken from where."""

from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import binaries, configuration, recipes, versions
from e2e import fakes

TOOLS = configuration.KUBERNETES / "tools"


def environment(tmp_path: Path, *path: Path, named: Path | None = None) -> dict[str, str]:
    variables = {"PATH": ":".join([*map(str, path), "/usr/bin", "/bin"]), "HOME": str(tmp_path / "home")}
    return variables | ({binaries.VARIABLE: str(named)} if named else {})


def test_the_folder_that_the_user_names_comes_first(tmp_path: Path) -> None:
    named, on_path = fakes.write_kubernetes(tmp_path / "named"), fakes.write_kubernetes(tmp_path / "path")
    found = binaries.find(environment=environment(tmp_path, on_path, named=named), progress=fakes.RecordedProgress())
    assert found == {program.name: named / program.name for program in versions.PROGRAMS}


def test_programs_on_path_are_taken_when_their_version_fits(tmp_path: Path) -> None:
    on_path = fakes.write_kubernetes(tmp_path / "path")
    found = binaries.find(environment=environment(tmp_path, on_path), progress=fakes.RecordedProgress())
    assert found == {program.name: on_path / program.name for program in versions.PROGRAMS}


def test_a_program_of_another_version_on_path_is_built_instead(tmp_path: Path) -> None:
    on_path = fakes.write_kubernetes(tmp_path / "path", kubectl="Client Version: v1.32.4-dispatcher")
    fakes.write_go(on_path / "go")
    progress = fakes.RecordedProgress()
    found = binaries.find(environment=environment(tmp_path, on_path), progress=progress)
    assert found["kube-apiserver"] == on_path / "kube-apiserver"
    assert found["kubectl"].is_relative_to(tmp_path / "home" / ".cache" / "cotenant" / "bin")
    assert progress.steps == ["downloading Go modules", "building kubectl (1 of 1)"]


def test_what_the_named_folder_lacks_is_taken_from_path(tmp_path: Path) -> None:
    named, on_path = fakes.write_kubernetes(tmp_path / "named"), fakes.write_kubernetes(tmp_path / "path")
    (named / "kwok").unlink()
    found = binaries.find(environment=environment(tmp_path, on_path, named=named), progress=fakes.RecordedProgress())
    assert found["kwok"] == on_path / "kwok"
    assert found["etcd"] == named / "etcd"


def test_another_version_in_the_named_folder_is_refused_with_the_remedy(tmp_path: Path) -> None:
    named = fakes.write_kubernetes(tmp_path / "named", kube_apiserver="Kubernetes v1.35.2")
    with pytest.raises(errors.InvalidInputError, match=r"kube-apiserver there is version 1\.35\.2, 1\.36\.x is needed"):
        binaries.find(environment=environment(tmp_path, named=named), progress=fakes.RecordedProgress())


def test_a_program_of_the_named_folder_that_does_not_run_is_refused(tmp_path: Path) -> None:
    named = fakes.write_kubernetes(tmp_path / "named")
    fakes.write_program(named / "etcd", "exit 1")
    with pytest.raises(errors.InvalidInputError, match="etcd there is version unknown"):
        binaries.find(environment=environment(tmp_path, named=named), progress=fakes.RecordedProgress())


def test_a_named_folder_that_is_none_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"name a folder of Kubernetes 1\.36 programs, or unset it"):
        binaries.find(environment=environment(tmp_path, named=tmp_path / "no"), progress=fakes.RecordedProgress())


def test_what_is_in_the_cache_is_not_built_again(tmp_path: Path) -> None:
    go = fakes.write_go(tmp_path / "go" / "go")
    variables = environment(tmp_path, go.parent) | {"PATH": str(go.parent)}
    fakes.write_go(go, build=f'/bin/mkdir -p "{tmp_path}"; echo "$program" >> {tmp_path}/built; echo x > "$output"')
    first = binaries.find(environment=variables, progress=fakes.RecordedProgress())
    progress = fakes.RecordedProgress()
    assert binaries.find(environment=variables, progress=progress) == first
    assert progress.steps == []
    wanted = {program.name for program in versions.PROGRAMS}
    packages = [target.package for target in recipes.TARGETS if target.program in wanted]
    assert (tmp_path / "built").read_text().split() == packages


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/cotenant"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/cache"}, "/cache/cotenant"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": ""}, "/home/a/.cache/cotenant"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "relative"}, "/home/a/.cache/cotenant"),
    ],
)
def test_the_cache_is_where_the_xdg_rules_say(variables: dict[str, str], folder: str) -> None:
    assert binaries.cache_directory(variables) == Path(folder)


def test_every_program_can_be_built() -> None:
    alone = (versions.KUEUE, versions.HELM, versions.LUA, versions.REGISTRY, versions.COSIGN)
    every = (*versions.PROGRAMS, *versions.NODE_PROGRAMS, *versions.NVIDIA_PROGRAMS, *alone)
    assert {target.program for target in recipes.TARGETS} == {program.name for program in every}
