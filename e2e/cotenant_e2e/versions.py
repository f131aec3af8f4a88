"""Which versions of which programs the kit runs, and how they print theirs. Pure."""

import re
from dataclasses import dataclass
from typing import Final

Version = tuple[int, int, int]

_VERSION = re.compile(r"(?<![\w.])(?:v|go)?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Requirement:
    """Versions from `least` on, and below `below`. `text`: how a person says that."""

    text: str
    least: Version
    below: Version

    def allows(self, version: Version | None) -> bool:
        """Return whether this version will do; an unknown one will not."""
        return version is not None and self.least <= version < self.below


@dataclass(frozen=True)
class Program:
    """A program that the kit runs. `ask`: the arguments with which it prints its version."""

    name: str
    requirement: Requirement
    ask: tuple[str, ...] = ("--version",)


_KUBERNETES = Requirement("1.36.x", (1, 36, 0), (1, 37, 0))
_CONTAINERD = Requirement("2.3.x", (2, 3, 0), (2, 4, 0))

PROGRAMS: Final = (
    Program("etcd", Requirement("3.6.x", (3, 6, 0), (3, 7, 0))),
    Program("kube-apiserver", _KUBERNETES),
    Program("kube-controller-manager", _KUBERNETES),
    Program("kube-scheduler", _KUBERNETES),
    Program("kubectl", _KUBERNETES, ask=("version", "--client")),
    Program("kwok", Requirement(">= 0.8", (0, 8, 0), (1_000, 0, 0))),
)

NODE_PROGRAMS: Final = (
    Program("kubelet", _KUBERNETES),
    Program("containerd", _CONTAINERD),
    Program("containerd-shim-runc-v2", _CONTAINERD, ask=("-v",)),
    Program("ctr", _CONTAINERD),
)
"""What a real node needs beside `PROGRAMS`."""

KUEUE: Final = Program("kueue", Requirement("0.19.x", (0, 19, 0), (0, 20, 0)))
"""For its own tests alone."""

HELM: Final = Program("helm", Requirement("4.2.x", (4, 2, 0), (4, 3, 0)), ask=("version", "--short"))
"""For the tests of the chart."""

REGISTRY: Final = Program("registry", Requirement("3.1.x", (3, 1, 0), (3, 2, 0)))
"""A container registry, for the tests of a release and of an installation from it."""

COSIGN: Final = Program("cosign", Requirement("3.1.x", (3, 1, 0), (3, 2, 0)), ask=("version",))
"""Signs the images and the chart of a release, and verifies signatures."""

LUA: Final = Program("glua", Requirement("0.1.x", (0, 1, 0), (0, 2, 0)), ask=("-v",))
"""The Lua that Argo CD has inside, for the test of what it is told of a DLJob's health."""

_TOOLKIT = Requirement("1.20.x", (1, 20, 0), (1, 21, 0))
NVIDIA_PROGRAMS: Final = (
    Program("nvidia-ctk", _TOOLKIT),
    Program("nvidia-cdi-hook", _TOOLKIT),
    Program("nvidia-device-plugin", Requirement("0.19.x", (0, 19, 0), (0, 20, 0))),
)
"""NVIDIA's container toolkit and device plugin, for the tests of living beside them."""

GO: Final = Program("go", Requirement(">= 1.26.8", (1, 26, 8), (2, 0, 0)), ask=("version",))


def parse(text: str) -> Version | None:
    """Return the first version in what a program prints; None where there is none.

    A missing third number counts as 0.
    """
    found = _VERSION.search(text)
    if not found:
        return None
    major, minor, patch = found.groups(default="0")
    return int(major), int(minor), int(patch)


def show(version: Version | None) -> str:
    """As a person writes it."""
    return ".".join(map(str, version)) if version else "unknown"
