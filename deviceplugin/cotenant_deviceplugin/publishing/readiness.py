"""Whether a real node may offer shares, and the one reason why not. Pure.

A runtime that ignores CDI names starts containers without limits and tells nobody: what is not known to have CDI has
none.
"""

import enum
import re
from dataclasses import dataclass


class Reason(enum.StrEnum):
    """Reasons of a GPUNode's condition `Ready`."""

    AGENT_READY = "AgentReady"
    DRIVER_MISSING = "DriverMissing"
    DRIVER_TOO_OLD = "DriverTooOld"
    FOREIGN_DEVICE_PLUGIN = "ForeignDevicePlugin"
    NO_CDI = "NoCDI"
    KUBELET_UNREACHABLE = "KubeletUnreachable"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a real node's agent depends on beside the driver.

    Attributes:
        container_runtime: as the Node tells it (`containerd://2.3.7`); None: it does not.
        runtime_has_cdi: the admin's word for a containerd 1.7, where CDI is a setting.
        driver_fault: why MPS of this driver cannot hold tenants; None: it can.
        specification_fault: why NVIDIA's CDI specification serves no GPU; None: it serves one at least.
        foreign: what else hands out this node's GPUs, in words.
        kubelet_fault: why kubelet does not know this agent's resource; None: it does.
        offering: whether the policy has shares offered; if not, the node is ready all the same.
        lacking_labels: `key=value` of each label by which the node is Cotenant's and that it does not carry.
    """

    container_runtime: str | None
    runtime_has_cdi: bool = False
    driver_fault: str | None = None
    specification_fault: str | None = None
    foreign: tuple[str, ...] = ()
    kubelet_fault: str | None = None
    offering: bool = True
    lacking_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """A reason, and its message."""

    reason: Reason
    message: str


def fault(around: Surroundings) -> Verdict | None:
    """Why the node is not ready; None: it is. What an admin must change comes before what passes by itself.

    Where the policy offers no shares, what stands in the way of them is no fault: NVIDIA's own plugin is meant to be
    there.
    """
    found = obstacle(around) if around.offering else None
    if found is None and around.kubelet_fault is not None:
        return Verdict(Reason.KUBELET_UNREACHABLE, around.kubelet_fault)
    return found


def obstacle(around: Surroundings) -> Verdict | None:
    """Return what an admin must change before the node can share its GPUs; None: nothing."""
    if around.foreign:
        remedy = "remove it from this node, or the label cotenant.dev/gpu"
        return Verdict(Reason.FOREIGN_DEVICE_PLUGIN, f"{' and '.join(around.foreign)} hands out these GPUs: {remedy}")
    if around.driver_fault is not None:
        return Verdict(Reason.DRIVER_TOO_OLD, around.driver_fault)
    lacking = cdi_fault(around.container_runtime, said_to_have_it=around.runtime_has_cdi)
    if lacking is not None:
        return Verdict(Reason.NO_CDI, lacking)
    if around.specification_fault is not None:
        return Verdict(Reason.NO_CDI, around.specification_fault)
    return None


def closed(around: Surroundings) -> str | None:
    """Why no share of this node may be handed out, whatever its GPUs; None: they may.

    Not because of kubelet: it cannot ask while it is not there.
    """
    found = obstacle(around)
    if found is not None:
        return f"{found.reason}: {found.message}"
    if around.lacking_labels:
        return f"the Node does not carry {' and '.join(around.lacking_labels)}"
    return None if around.offering else "the PackingPolicy offers no shares"


def given_back(around: Surroundings) -> bool:
    """Return whether Cotenant is not to share the node's GPUs, by what is known, and not for a lack of knowledge."""
    return bool(around.foreign or around.lacking_labels) or not around.offering


_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_SETTING = (1, 7)
"""containerd takes CDI names through CRI since 1.7, where `enable_cdi` is off by default; on by default since 2.0
(containerd pull request 9621)."""
_CRIO = (1, 28)


def cdi_fault(container_runtime: str | None, *, said_to_have_it: bool) -> str | None:
    """Why a runtime does not resolve CDI names; None: it does.

    Args:
        container_runtime: `name://version`, as a Node tells it.
        said_to_have_it: an admin vouches for it; believed of containerd 1.7 alone.
    """
    name, _, version = (container_runtime or "").partition("://")
    found = _VERSION.match(version)
    number = (int(found[1]), int(found[2])) if found else (0, 0)
    if (name == "containerd" and number >= (2, 0)) or (name == "cri-o" and number >= _CRIO):
        return None
    if name == "containerd" and number >= _SETTING:
        remedy = "set enable_cdi = true in its configuration, then node.runtimeHasCDI=true (--runtime-has-cdi)"
        return None if said_to_have_it else f"{container_runtime} resolves CDI names only when told to: {remedy}"
    if container_runtime is None:
        return "the Node has not named its container runtime yet"
    return f"{container_runtime} is not known to resolve CDI names: use containerd 2.0 or later, or CRI-O 1.28 or later"
