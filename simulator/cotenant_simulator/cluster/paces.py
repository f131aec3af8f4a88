"""How fast the jobs of a snapshot have run, of their speeds alone: who was beside whom is known, and when. Pure.

    pace = mean over its run of the speed beside those who were there, by the model of co-location

What has no prediction or no placement, or has whole GPUs, ran at its own speed as far as anybody knows.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from cotenant_api.names import GPUUID, GPUModel
from cotenant_simulator.cluster import cases
from cotenant_simulator.engine import interference


class _Stay(NamedTuple):
    place: int
    start: float
    end: float
    tenant: interference.Tenant


def told(
    found: Sequence[cases.Case],
    memory: Mapping[GPUModel, int],
    speeds: interference.Interference,
    *,
    until: datetime,
) -> tuple[cases.Case, ...]:
    """Return the cases with their paces: above 0, at most 1.

    Args:
        found: the cases.
        memory: of each GPU model, in MiB.
        speeds: of tenants of a GPU.
        until: the time of the snapshot.
    """
    stays: dict[GPUUID, list[_Stay]] = defaultdict(list)
    for place, case in enumerate(found):
        tenant = _tenant(case, memory)
        if tenant is not None and case.started is not None:
            end = (case.ended or until).timestamp()
            stays[case.held[0]].append(_Stay(place, case.started.timestamp(), end, tenant))
    paces = [1.0] * len(found)
    for here in stays.values():
        for place, pace in _on_one(here, speeds).items():
            paces[place] = pace
    return tuple(dataclasses.replace(case, pace=pace) for case, pace in zip(found, paces, strict=True))


def _tenant(case: cases.Case, memory: Mapping[GPUModel, int]) -> interference.Tenant | None:
    model = case.ran_on
    if len(case.held) != 1 or case.believed is None or model is None or model not in memory:
        return None
    predicted = case.believed.by_gpu.get(model)
    if predicted is None:
        return None
    return interference.Tenant(real=predicted, gpu_memory_mib=memory[model], threads=case.threads, priority=0)


def _on_one(here: Sequence[_Stay], speeds: interference.Interference) -> Mapping[int, float]:
    """Of all who were on one GPU, by place."""
    done: dict[int, float] = defaultdict(float)
    coming: dict[float, list[_Stay]] = defaultdict(list)
    for stay in here:
        coming[stay.start].append(stay)
    there: list[_Stay] = []
    for begin, end in itertools.pairwise(sorted({edge for stay in here for edge in (stay.start, stay.end)})):
        there = [stay for stay in there if stay.end > begin] + [stay for stay in coming[begin] if stay.end > begin]
        together = speeds.together([stay.tenant for stay in there])
        for stay, speed in zip(there, together.speeds, strict=True):
            done[stay.place] += (end - begin) * speed
    return {stay.place: min(1.0, done[stay.place] / (stay.end - stay.start)) for stay in here if stay.end > stay.start}
