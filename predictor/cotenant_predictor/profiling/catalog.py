"""A job that can be measured: a network of `networks` with its batch, mode and precision. Pure; imports no torch."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")


@dataclasses.dataclass(frozen=True)
class Job:
    """One job of a set. `group`: its architecture, which leave-group-out holds out; `family`: a kind of networks."""

    name: str
    group: str
    family: str
    network: str
    """`module.function` of `networks`."""
    batch_size: int
    training: bool = True
    precision: str = "fp32"
    optimizer: str = "sgd:momentum=0.9"
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_object(self) -> dict[str, Any]:
        """As JSON, for a worker and for result files."""
        return {**dataclasses.asdict(self), "arguments": dict(self.arguments)}

    @classmethod
    def from_object(cls, value: Mapping[str, Any]) -> Job:
        """Return the inverse of `to_object`."""
        return cls(**value)

    def build(self) -> Any:
        """`(model, inputs)` on the default device; see `networks`. Needs torch."""
        module, _, name = self.network.partition(".")
        function: Callable[..., Any] = getattr(importlib.import_module(f"{__package__}.networks.{module}"), name)
        return function(self.batch_size, training=self.training, **self.arguments)

    def extraction_options(self) -> dict[str, Any]:
        """Return what the extractor takes: data comes from the host, made beforehand, so that no loader limits it."""
        return {
            "name": self.name,
            "batchSize": self.batch_size,
            "mode": "Training" if self.training else "Inference",
            "precision": self.precision,
            "optimizer": self.optimizer if self.training else None,
            "host": {"loaderWorkers": 0, "samplesPerSecond": None, "dataOnGPU": False},
            "inference": None,
        }


def in_precision(job: Job, precision: str) -> Job:
    """Return the same job in another precision, under a name that says so.

    Raises:
        ValueError: there is no such precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    if precision == job.precision:
        return job
    return dataclasses.replace(job, name=f"{job.name}-{precision}", precision=precision)
