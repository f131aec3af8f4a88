"""What a published job is to the extractor."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Published:
    """One job of a public set.

    `key` is what the set calls it, `name` the graph's (and, with .json.gz, the file's) name, and `build` what
    `cotenant extract` would call. `tf32`: whether convolutions ran as TF32, as PyTorch has them. `examples`: what a
    tensor would hold where the step asks.
    """

    key: str
    name: str
    build: Callable[[], Any]
    batch_size: int
    training: bool = True
    optimizer: str | None = None
    workers: int = 0
    data_on_gpu: bool = False
    compiled: bool = False
    tf32: bool = False
    precision: str = "fp32"
    examples: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """What the extractor takes."""
        return {
            "name": self.name,
            "batchSize": self.batch_size,
            "mode": "Training" if self.training else "Inference",
            "precision": self.precision,
            "optimizer": self.optimizer,
            "compiled": self.compiled,
            "examples": dict(self.examples),
            "host": {"loaderWorkers": self.workers, "dataOnGPU": self.data_on_gpu},
        }
