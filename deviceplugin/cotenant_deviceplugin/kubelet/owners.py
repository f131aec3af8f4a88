"""Who holds tokens according to kubelet, as an interface and its values. No I/O."""

from dataclasses import dataclass
from typing import Protocol

from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin.kubelet.plugin import CDIName, Tokens


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One container that PodResources lists with tokens of ours. It knows no UID."""

    namespace: Namespace
    pod: str
    container: str
    tokens: Tokens


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One container in kubelet's checkpoint with tokens of ours; `cdi_names`: what our answer to Allocate was."""

    pod_uid: PodUID
    container: str
    tokens: Tokens
    cdi_names: tuple[CDIName, ...]


class Kubelet(Protocol):
    """What kubelet knows now. Both raise TemporaryError where that cannot be read."""

    async def listed(self) -> tuple[Listed, ...]:
        """By PodResources."""

    async def recorded(self) -> tuple[Recorded, ...]:
        """By the checkpoint."""
