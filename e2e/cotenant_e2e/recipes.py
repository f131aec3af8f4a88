"""How each Kubernetes program is built from its pinned Go module. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant_api import errors

# No debug information: the linker strips it anyway (-s), and compiling it costs 7 %.
GO_FLAGS = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false"
GO_GARBAGE_COLLECTION = "400"
"""With Go's own 100 a cold build takes a quarter longer."""
NOT_INHERITED = frozenset({"GOFLAGS", "GOROOT", "GOOS", "GOARCH", "GOWORK", "GOEXPERIMENT"})
KUBERNETES = "k8s.io/kubernetes"
CONTAINERD = "github.com/containerd/containerd/v2"
KUEUE = "sigs.k8s.io/kueue"
HELM = "helm.sh/helm/v4"
LUA = "github.com/yuin/gopher-lua"
TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit"
DEVICE_PLUGIN = "github.com/NVIDIA/k8s-device-plugin"
DISTRIBUTION = "github.com/distribution/distribution/v3"
COSIGN = "github.com/sigstore/cosign/v3"
VERSION_VARIABLES = {
    CONTAINERD: f"{CONTAINERD}/version.Version",
    COSIGN: "sigs.k8s.io/release-utils/version.gitVersion",
    DEVICE_PLUGIN: f"{DEVICE_PLUGIN}/internal/info.version",
    DISTRIBUTION: f"{DISTRIBUTION}/version.version",
    HELM: f"{HELM}/internal/version.version",
    TOOLKIT: f"{TOOLKIT}/internal/info.version",
}
"""Module -> the variable in which its programs keep their version."""
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

_COMPILER = re.compile(r'"gcc": executable file not found|C compiler "\S+" not found')
_NETWORK = re.compile(r"dial tcp|no such host|i/o timeout|connection refused|proxyconnect|TLS handshake|x509:")


@dataclass(frozen=True)
class Target:
    """How to build one program.

    Args:
        program: what the result is called.
        tool: the folder of its go.mod.
        module: the Go module whose version is the program's.
        package: what is built.
        tags: build tags, comma-separated.
        cgo: whether the program loads libraries of the driver, for which it needs gcc.
    """

    program: str
    tool: str
    module: str
    package: str
    tags: str = ""
    cgo: bool = False


def _kubernetes(program: str) -> Target:
    return Target(program, "k8s", KUBERNETES, f"{KUBERNETES}/cmd/{program}", tags="selinux,notest,grpcnotrace")


def _containerd(program: str) -> Target:
    # Without the snapshotters that a test node does not use.
    tags = "urfave_cli_no_docs,no_btrfs,no_devmapper,no_zfs,no_tracing"
    return Target(program, "containerd", CONTAINERD, f"{CONTAINERD}/cmd/{program}", tags=tags)


TARGETS = (
    Target("etcd", "k8s", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Target("kwok", "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    _kubernetes("kubelet"),
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    # Without the simulator of kube-scheduler, which is off by default and half of what there is to compile.
    Target("kueue", "kueue", KUEUE, f"{KUEUE}/cmd/kueue", tags="exclude_scheduler_library"),
    Target("helm", "helm", HELM, f"{HELM}/cmd/helm"),
    Target("glua", "glua", LUA, f"{LUA}/cmd/glua"),
    Target("registry", "distribution", DISTRIBUTION, f"{DISTRIBUTION}/cmd/registry"),
    Target("cosign", "cosign", COSIGN, f"{COSIGN}/cmd/cosign"),
    Target("nvidia-ctk", "nvidia-toolkit", TOOLKIT, f"{TOOLKIT}/cmd/nvidia-ctk", cgo=True),
    Target("nvidia-cdi-hook", "nvidia-toolkit", TOOLKIT, f"{TOOLKIT}/cmd/nvidia-cdi-hook", cgo=True),
    Target(
        "nvidia-device-plugin",
        "nvidia-device-plugin",
        DEVICE_PLUGIN,
        f"{DEVICE_PLUGIN}/cmd/nvidia-device-plugin",
        cgo=True,
    ),
)


def module_version(go_mod: str, module: str) -> str:
    """Return the version that a go.mod requires of a module: `v1.36.4`.

    Raises:
        InvalidInputError: it does not require that module.
    """
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if not found:
        raise errors.InvalidInputError("go.mod", module, "require it, at one version")
    return found.group(1)


def folder(target: Target, *, go_mod: str, go_sum: str) -> str:
    """Return the folder in the cache for one version, its dependencies and these flags.

    `kubernetes-v1.36.4-0a1b2c3d`.
    """
    made_from = f"{go_mod}{go_sum}{GO_FLAGS}{target.tags}"
    digest = hashlib.sha256(made_from.encode()).hexdigest()[:8]
    project = re.sub(r"(/server)?(/v\d+)?$", "", target.module).rpartition("/")[2]
    return f"{project}-{module_version(go_mod, target.module)}-{digest}"


def build_command(go: Path, target: Target, *, version: str, output: Path) -> list[str]:
    """Return the command that builds it; it prints the name of each package that it compiles."""
    flags = f"-s -w {linker_flags(target.module, version)}".rstrip()
    return [str(go), "build", "-v", "-tags", target.tags, "-ldflags", flags, "-o", str(output), target.package]


def download_command(go: Path, packages: Sequence[str]) -> list[str]:
    """Return the command that downloads what these packages are made of, and no more.

    It prints a line for each package.
    """
    return [str(go), "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Version}}{{end}}", *packages]


def linker_flags(module: str, version: str) -> str:
    """Return the linker's flags, by which a module's programs know their version.

    Without them Kubernetes' version is no version to its clients, containerd's and NVIDIA's say "unknown", and helm's
    is its branch. The build date is a constant: the real one would make every build link again.
    """
    if module in VERSION_VARIABLES:
        return f"-X {VERSION_VARIABLES[module]}={version}"
    if module != KUBERNETES:
        return ""
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "gitCommit": "unknown",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    return " ".join(f"-X {package}.{key}={value}" for package in VERSION_PACKAGES for key, value in values.items())


def go_environment(inherited: Mapping[str, str], *, cgo: bool = False) -> dict[str, str]:
    """Return what the go command runs with: proxies and caches as the user has them, everything else as pinned here."""
    kept = {key: value for key, value in inherited.items() if key not in NOT_INHERITED}
    fixed = {"CGO_ENABLED": "1" if cgo else "0", "GOTOOLCHAIN": "local", "GOFLAGS": GO_FLAGS, "GOWORK": "off"}
    return {"GOGC": GO_GARBAGE_COLLECTION} | kept | fixed


def go_cache(environment: Mapping[str, str]) -> Path:
    """Where go keeps what it has compiled."""
    if named := environment.get("GOCACHE"):
        return Path(named)
    return Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache") / "go-build"


def go_modules(environment: Mapping[str, str]) -> Path:
    """Return where go keeps the modules that it has downloaded."""
    if named := environment.get("GOMODCACHE"):
        return Path(named)
    path = environment.get("GOPATH") or str(Path(environment.get("HOME", "/")) / "go")
    return Path(path.split(":")[0]) / "pkg" / "mod"


def explanation(lines: Sequence[str], *, command: str, log: Path) -> str:
    """One line that says why the go command failed and what to do. `lines`: what it printed."""
    text = [line.strip() for line in lines if line.strip()]
    compiler = next((line for line in text if _COMPILER.search(line)), None)
    if compiler:
        return f"no C compiler ({errors.shortened(compiler)}): install gcc (apt-get install gcc libc6-dev)"
    full = next((line for line in text if "no space left on device" in line), None)
    if full:
        return f"no space left while building Kubernetes ({errors.shortened(full)}): free 6 GiB and try again"
    network = next((line for line in text if _NETWORK.search(line)), None)
    if network:
        return f"cannot download Go modules ({errors.shortened(network)}): check the network, or set GOPROXY"
    last = text[-1] if text else "it says nothing"
    return f"go {command} failed ({errors.shortened(last)}): the whole output is in {log}"
