"""A small cluster and pods in the published schema, drawn from a seed: no line of it is of the published trace.

`traces/` holds what this draws, with the curves that `oracle` computes; `PYTHONPATH=tests python -m simulator.oracle`
writes it again.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from cotenant_simulator.openb import trace

NODES = 60
PODS = 300
COMMITTED = Path(__file__).with_name("traces")
SEEDS = (42, 43)

_MODELS = (("small", 2), ("middle", 4), ("large", 8))
_CPUS = (48_000, 64_000, 82_000, 96_000, 104_000, 128_000)
_PARTS = (50, 110, 230, 320, 470, 470, 590, 650, 810, 810, 1000, 1000)


def nodes(draw: random.Random) -> list[str]:
    lines = ["sn,cpu_milli,memory_mib,gpu,model"]
    for number in range(NODES):
        model, gpus = draw.choice(_MODELS)
        cpu = draw.choice(_CPUS)
        lines.append(f"node-{number:03},{cpu},{cpu * 4},{gpus},{model}")
    return lines


def pods(draw: random.Random, *, with_models: bool) -> list[str]:
    lines = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli" + (",gpu_spec,qos" if with_models else "")]
    for number in range(PODS):
        gpus = draw.choices((0, 1, 2), weights=(10, 80, 10))[0]  # of 280 GPUs: no column is skipped
        milli = 0 if gpus == 0 else 1000 if gpus > 1 else draw.choice(_PARTS)
        spec = draw.choices(("", "large", "middle|large"), weights=(90, 5, 5))[0] if with_models and gpus else ""
        asked = f"{draw.randrange(500, 12_000, 100)},{draw.choice((2048, 16_384, 30_720))},{gpus},{milli}"
        lines.append(f"pod-{number:04},{asked}" + (f",{spec},LS" if with_models else ""))
    return lines


def write(folder: Path, *, seed: int = 7) -> tuple[str, str]:
    """The cluster and two traces, `plain` without and `models` with the columns of the longer schema."""
    draw = random.Random(seed)  # noqa: S311 - a trace that is the same each time
    _write(folder / trace.NODES_FILE, nodes(draw))
    _write(folder / f"{trace.PODS_PREFIX}plain.csv", pods(draw, with_models=False))
    _write(folder / f"{trace.PODS_PREFIX}models.csv", pods(draw, with_models=True))
    return "plain", "models"


def _write(file: Path, lines: Sequence[str]) -> None:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
