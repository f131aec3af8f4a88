"""Which of the CDI specifications on a node gives one GPU of this node's driver, and why the others do not. Pure.

NVIDIA's parts write three kinds, all into the same folders:

nvidia.com/gpu: `nvidia-ctk cdi generate`, by hand or by nvidia-cdi-refresh of a host's toolkit from 1.18 on.
k8s.device-plugin.nvidia.com/gpu: NVIDIA's device plugin; its file stays when the plugin has gone.
management.nvidia.com/gpu: the toolkit of the GPU Operator, for its own privileged pods. Its one device, `all`, is every
    GPU at once, so it never serves.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import cdi
from cotenant_deviceplugin.binding.grants import Numbers

KINDS = ("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu")
"""The kinds that can serve; the first that does is taken."""
MANAGEMENT = "management.nvidia.com/gpu"
SEVERAL = "is one of several files of its folder that know the GPU: keep one"

_LIBRARY = re.compile(r"/lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d[\d.]*)$")


@dataclass(frozen=True)
class Found:
    """A specification of one of NVIDIA's kinds, in a file."""

    path: Path
    content: cdi.Object

    @property
    def kind(self) -> str:
        """The kind that the specification declares."""
        return str(self.content.get("kind"))


@dataclass(frozen=True)
class Wanted:
    """A GPU of this node. `driver`: the version of the driver; None: not known yet, and not compared."""

    gpu: GPUUID
    numbers: Numbers
    driver: str | None


def base(found: Iterable[Found], wanted: Wanted) -> cdi.Base | None:
    """Return the GPU's edits of the first kind that serves the GPU, of its last folder; None where none does.

    Where two files of a folder know the GPU, neither serves: runtimes refuse both.
    """
    found = tuple(found)
    for kind in KINDS:
        serving = [each for each in found if each.kind == kind and unfit(each, wanted) is None]
        if serving and [each.path.parent for each in serving].count(serving[-1].path.parent) == 1:
            return cdi.base_of(serving[-1].content, wanted.gpu, wanted.numbers)
    return None


def unfit(found: Found, wanted: Wanted) -> str | None:
    """Return why a specification does not serve a GPU; None where it does."""
    if found.kind == MANAGEMENT:
        return "gives all GPUs at once"
    if (fault := amiss(found.content, wanted.gpu, wanted.numbers)) is not None:
        return fault
    versions = driver_versions(found.content)
    if wanted.driver is not None and versions and wanted.driver not in versions:
        return f"is of driver {' and '.join(sorted(versions))}, and {wanted.driver} runs"
    return None


def amiss(content: cdi.Object, gpu: GPUUID, numbers: Numbers) -> str | None:
    """Return why a specification does not give a GPU, of whatever driver it is; None where it does."""
    try:
        known = cdi.named(content, gpu, numbers)
    except errors.InvalidInputError as error:
        return str(error)
    return "does not know the GPU" if known is None else cdi.wrong_nodes(known, numbers)


def driver_versions(content: cdi.Object) -> frozenset[str]:
    """Return the driver versions whose libcuda or libnvidia-ml a specification mounts; none may be named."""
    mounts = (content.get("containerEdits") or {}).get("mounts") or ()
    matches = (_LIBRARY.search(str(mount.get("hostPath"))) for mount in mounts)
    return frozenset(match[1] for match in matches if match)


def told(folders: Iterable[Path], found: Iterable[Found], wanted: Wanted) -> str:
    """Return in words what was looked for where, and why what is there does not serve a GPU."""
    reasons = [f"{each.path} ({each.kind}) {unfit(each, wanted) or SEVERAL}" for each in found]
    where = " and ".join(str(folder) for folder in folders)
    looked = f"no CDI specification of kind {' or '.join(KINDS)} in {where} gives {wanted.gpu} alone"
    return f"{looked}: {'; '.join(reasons)}" if reasons else looked
