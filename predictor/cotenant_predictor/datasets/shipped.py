"""The public sets that ship, by the names that commands take beside files and folders."""

import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cotenant_api import errors

KERNELS: Final = "kernels"
LANGUAGE_MODELS: Final = "language-models"
GAVEL: Final = "gavel"
GAVEL_AGAIN: Final = "gavel-again"
MISO: Final = "miso"
MISO_JOBS: Final = "miso-jobs"
CARMA: Final = "carma"
TIMM: Final = "timm"
ZEUS: Final = "zeus"
ALNAIR: Final = "alnair"

SETS: Final[Mapping[str, str]] = types.MappingProxyType(
    {
        KERNELS: "latency of single kernels on five GPU models (NeuSight)",
        LANGUAGE_MODELS: "latency of whole language models (NeuSight); scored, never learned from",
        GAVEL: "speed of pairs of training jobs on three GPU models (Gavel)",
        GAVEL_AGAIN: "speed of the same pairs, measured a second time (Gavel); shows how far the two agree",
        CARMA: "peak memory of whole training jobs on an A100 (CARMA); the memory formula is fitted to it",
        TIMM: "step time of whole image models on two GPU models, and which batch fits (timm)",
        MISO: "speed of training jobs on parts of a GPU (MISO)",
        MISO_JOBS: "utilization, memory, power and step time of whole training jobs on an A100 (MISO); only scored",
        ZEUS: "step time, power and energy of whole training jobs on four GPU models (Zeus); only scored",
        ALNAIR: "highest utilization, power and memory of whole training jobs on a P100 (Alnair); only scored",
    }
)


def told_apart(data: Iterable[str]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Which of DATA are names of sets and which are files or folders, each once, in order.

    What exists in the current folder under a set's name must be written with a path (`./gavel`).

    Raises:
        InvalidInputError: one is neither; the message lists the sets.
    """
    names: dict[str, None] = {}
    paths: dict[Path, None] = {}
    for one in data:
        if one in SETS:
            names[one] = None
        elif Path(one).exists():
            paths[Path(one)] = None
        else:
            remedy = f"is no file, no folder and no shipped set; the sets are {', '.join(SETS)}"
            raise errors.InvalidInputError("DATA", one, remedy)
    return tuple(names), tuple(paths)
