"""What a supervisor can do for a GPU: values that `supervision` decides on, and `supervisor` carries out."""

from dataclasses import dataclass

from cotenant_deviceplugin.gpus.hardware import ComputeMode


@dataclass(frozen=True, kw_only=True)
class StartServer:
    """Start the GPU's server."""


@dataclass(frozen=True, kw_only=True)
class StopServer:
    """End the GPU's server; nobody uses it."""


@dataclass(frozen=True, kw_only=True)
class SetComputeMode:
    """Set who may open contexts."""

    mode: ComputeMode


@dataclass(frozen=True, kw_only=True)
class TerminateClients:
    """End these clients through their server."""

    pids: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class EvictStayers:
    """Evict the tenants of these processes: they keep a GPU from recovering."""

    pids: frozenset[int]


Action = StartServer | StopServer | SetComputeMode | TerminateClients | EvictStayers
