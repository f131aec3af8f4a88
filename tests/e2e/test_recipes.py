"""How programs are built, and how failures are explained."""

from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import configuration, recipes

TOOLS = configuration.KUBERNETES / "tools"
BY_NAME = {target.program: target for target in recipes.TARGETS}
GO_MOD = "module x\n\nrequire (\n\tk8s.io/kubernetes v1.36.4 // indirect\n\tk8s.io/kubernetes-not v1.0.0\n)\n"


def test_the_version_of_a_module_is_read_from_its_go_mod() -> None:
    assert recipes.module_version(GO_MOD, "k8s.io/kubernetes") == "v1.36.4"


def test_a_module_that_is_not_required_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"k8s\.io/kub"):
        recipes.module_version(GO_MOD, "k8s.io/kub")


@pytest.mark.parametrize("target", recipes.TARGETS, ids=lambda target: target.program)
def test_every_target_is_pinned_by_version_and_checksum(target: recipes.Target) -> None:
    version = recipes.module_version((TOOLS / target.tool / "go.mod").read_text(), target.module)
    assert f"{target.module} {version} h1:" in (TOOLS / target.tool / "go.sum").read_text()


def test_kubernetes_is_1_36() -> None:
    go_mod = (TOOLS / "k8s" / "go.mod").read_text()
    assert recipes.module_version(go_mod, "k8s.io/kubernetes").startswith("v1.36.")


def test_the_folder_in_the_cache_names_the_version() -> None:
    name = recipes.folder(BY_NAME["kubectl"], go_mod=GO_MOD, go_sum="")
    assert name.startswith("kubernetes-v1.36.4-")


def test_other_dependencies_of_the_same_version_have_another_folder() -> None:
    one, other = (recipes.folder(BY_NAME["kubectl"], go_mod=GO_MOD, go_sum=text) for text in ("a", "b"))
    assert one != other


def test_kubernetes_programs_are_built_with_their_version() -> None:
    command = recipes.build_command(Path("/go"), BY_NAME["kubectl"], version="v1.36.4", output=Path("/out"))
    assert command[:3] == ["/go", "build", "-v"]
    assert command[-3:] == ["-o", "/out", "k8s.io/kubernetes/cmd/kubectl"]
    flags = command[command.index("-ldflags") + 1]
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.4" in flags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in flags


@pytest.mark.parametrize(
    ("module", "flag"),
    [
        (recipes.DISTRIBUTION, "-X github.com/distribution/distribution/v3/version.version=v1.2.3"),
        (recipes.COSIGN, "-X sigs.k8s.io/release-utils/version.gitVersion=v1.2.3"),
        ("sigs.k8s.io/kwok", ""),
    ],
)
def test_a_program_that_does_not_know_its_version_is_told(module: str, flag: str) -> None:
    assert recipes.linker_flags(module, "v1.2.3") == flag


def test_what_loads_libraries_of_the_driver_is_built_with_c() -> None:
    assert [target.program for target in recipes.TARGETS if target.cgo] == [
        "nvidia-ctk",
        "nvidia-cdi-hook",
        "nvidia-device-plugin",
    ]
    assert recipes.go_environment({}, cgo=True)["CGO_ENABLED"] == "1"


def test_the_users_go_settings_do_not_change_what_is_built() -> None:
    environment = recipes.go_environment({"GOFLAGS": "-mod=vendor", "GOOS": "plan9", "CGO_ENABLED": "1", "GOROOT": "/"})
    assert environment["GOFLAGS"] == recipes.GO_FLAGS
    assert environment["CGO_ENABLED"] == "0"
    assert not {"GOOS", "GOROOT"} & environment.keys()


def test_the_users_proxy_and_caches_are_kept() -> None:
    environment = recipes.go_environment({"GOPROXY": "https://proxy", "GOCACHE": "/c", "GOGC": "off"})
    assert (environment["GOPROXY"], environment["GOCACHE"], environment["GOGC"]) == ("https://proxy", "/c", "off")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/go-build"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/cache"}, "/cache/go-build"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/cache", "GOCACHE": "/go"}, "/go"),
    ],
)
def test_gos_own_cache_is_where_go_puts_it(environment: dict[str, str], folder: str) -> None:
    assert recipes.go_cache(environment) == Path(folder)


@pytest.mark.parametrize(
    ("printed", "explained"),
    [
        ("write /tmp/x: no space left on device", "no space left while building .*: free 6 GiB"),
        ('Get "https://proxy.example/x": dial tcp: lookup proxy.example: no such host', "check the network"),
        ('cgo: C compiler "gcc" not found: exec: "gcc": executable file not found in $PATH', "install gcc"),
        ("main.go:1:1: syntax error", r"go build failed \('main.go:1:1: syntax error'\): the whole output is in /log"),
    ],
)
def test_a_failure_is_explained_in_one_line(printed: str, explained: str) -> None:
    text = recipes.explanation(["fmt", printed, ""], command="build", log=Path("/log"))
    with pytest.raises(errors.PermanentError, match=explained):
        raise errors.PermanentError(text)
    assert "\n" not in text


def test_a_silent_failure_is_explained_too() -> None:
    assert "it says nothing" in recipes.explanation([], command="build", log=Path("/log"))
