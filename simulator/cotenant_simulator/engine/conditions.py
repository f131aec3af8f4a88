"""What a run is told beside its jobs. Frozen values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors
from cotenant_simulator.engine import faults as breaking
from cotenant_simulator.twin import leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Beside the jobs.

    Attributes:
        faults: what breaks.
        bind_seconds: from a gate's lift to the binding, which kube-scheduler does; GPUs are promised meanwhile.
        start_seconds: from the binding to the first step: kubelet, image, start of the program.
        spans: whether the history tells who was where.
    """

    faults: Sequence[breaking.Fault] = ()
    bind_seconds: float = 0.0
    start_seconds: float = 0.0
    spans: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.bind_seconds < leader.PROMISE_SECONDS:
            remedy = f"must be 0 to below {leader.PROMISE_SECONDS:.0f}: later the queue takes promises back"
            raise errors.InvalidInputError("bind_seconds", self.bind_seconds, remedy)
        if not 0 <= self.start_seconds < float("inf"):
            raise errors.InvalidInputError("start_seconds", self.start_seconds, "must be 0 or more")


NORMAL: Final = Conditions()
"""Nothing breaks, and what was decided is done at once."""
