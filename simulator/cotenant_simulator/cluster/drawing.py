"""The jobs of a replay: what a snapshot leaves open is drawn, the same draw under every policy. Pure; seeds are given.

| not known | drawn |
|---|---|
| what a job really needs | about its prediction, by the predictor's own bounds (`needs`) |
| how long a waiting job will run | a run time that is known; below `FEWEST` of them log-uniform in fixed bounds |
| how long a running job goes on | a longer run time that is known; below `FEWEST` as long again, times a lognormal |
| how long inference serves | to the end |

On another GPU model a run time is in proportion to the predicted step.
"""

import bisect
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cotenant_api.names import HUNDREDTHS, GPUModel
from cotenant_simulator.cluster import cases, needs
from cotenant_simulator.engine import jobs

FEWEST: Final = 5
SHORTEST_SECONDS: Final = 120.0
LONGEST_SECONDS: Final = 7200.0
LEAST_SERVING_SECONDS: Final = 3600.0
_LEAST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time that is replayed.

    Attributes:
        begin: what ended before is left out; what had begun before is there from the beginning, with what it had left.
        taken: the time of the snapshot.
    """

    begin: datetime
    taken: datetime

    @property
    def seconds(self) -> float:
        """From the beginning to the snapshot."""
        return (self.taken - self.begin).total_seconds()


@dataclass(frozen=True, slots=True, eq=False)
class Fixed(jobs.Kind):
    """A kind that is booked by what it asks for, not by a prediction.

    Attributes:
        share: hundredths.
        memory_mib: None: by its share.
    """

    share: int = HUNDREDTHS
    memory_mib: int | None = None


def inside(found: Sequence[cases.Case], window: Window) -> tuple[cases.Case, ...]:
    """Those that were there in the window."""
    return tuple(case for case in found if case.ended is None or case.ended > window.begin)


def drawn(
    found: Sequence[cases.Case],
    memory: Mapping[GPUModel, int],
    window: Window,
    *,
    seed: int,
    assumed_percent: float | None = None,
) -> tuple[jobs.Job, ...]:
    """Return a job for each case that some GPU model may take, in order.

    Args:
        found: the cases.
        memory: of each GPU model that there is, in MiB.
        window: see `Window`.
        seed: of all draws.
        assumed_percent: utilization of jobs of which nothing is known; None: they get whole GPUs.
    """
    known = sorted(case.pace * case.ran_seconds for case in found if case.ran_seconds is not None)
    lengths = [_length(case, known, window, seed=seed) for case in found]
    arrivals = [max((case.arrived - window.begin).total_seconds(), 0.0) for case in found]
    ends = (begin + length for begin, length in zip(arrivals, lengths, strict=True) if length is not None)
    horizon = max(max(ends, default=0.0), window.seconds + LEAST_SERVING_SECONDS)
    made = []
    kinds: dict[object, tuple[jobs.Kind, needs.ByGPU]] = {}
    for case, arrives, length in zip(found, arrivals, lengths, strict=True):
        key = _key(case)
        if key not in kinds:
            kinds[key] = _kind(case, memory, seed=seed, assumed_percent=assumed_percent)
        kind, by_gpu = kinds[key]
        seconds = horizon - arrives if length is None else length
        made.append(
            jobs.Job(
                name=case.name,
                kind=kind,
                arrives=arrives,
                seconds=_by_model(case, by_gpu, kind, seconds),
                namespace=case.namespace,
                replicas=case.replicas,
                gpus=case.gpus,
                priority=case.priority,
                workload_type=case.workload_type,
            )
        )
    return tuple(made)


def chance(*words: object) -> random.Random:
    """Return the same draws everywhere for the same words."""
    return random.Random(" ".join(map(str, words)))  # noqa: S311 -- draws, not secrets


def allowed(case: cases.Case, memory: Mapping[GPUModel, int]) -> Mapping[GPUModel, int]:
    """Return the GPU models that there are and that a job may use."""
    return {model: mib for model, mib in memory.items() if not case.gpu_models or model in case.gpu_models}


def _key(case: cases.Case) -> object:
    """Cases of equal keys are of one kind: they need the same, and err alike."""
    if case.believed is None or case.used is not None or case.share:
        return case.namespace, case.name
    return case.believed.model_dump_json(), case.memory_mib, case.gpu_models


def _kind(
    case: cases.Case, memory: Mapping[GPUModel, int], *, seed: int, assumed_percent: float | None
) -> tuple[jobs.Kind, needs.ByGPU]:
    """Return the kind, and what is believed of it."""
    usable = allowed(case, memory)
    name = case.name if case.believed is None else case.believed.graph
    found = {} if case.share else needs.believed(case, usable, assumed_percent=assumed_percent)
    if not found:
        share = case.share or HUNDREDTHS
        taken = needs.taken(usable, share=share, memory=memory)
        fixed = case.share or case.gpus > 1
        if not fixed:
            return jobs.Kind(name=name, predicted=None, real=taken), taken
        return Fixed(name=name, predicted=None, real=taken, share=share, memory_mib=case.memory_mib), taken
    luck = chance("needs", name, seed)
    error = needs.Error(activity=luck.gauss(0, 1), memory=luck.gauss(0, 1))
    packed = found if case.believed is not None else needs.packable(found, usable)
    kept = packed or found
    predicted = needs.document(packed, case, key=name)
    return jobs.Kind(name=name, predicted=predicted, real=needs.real(kept, case, error, memory=usable)), kept


def _by_model(case: cases.Case, by_gpu: needs.ByGPU, kind: jobs.Kind, seconds: float) -> Mapping[GPUModel, float]:
    """On the model that it ran on as long as it ran; where it did not run, as if on the one with the median step."""
    if not kind.real:
        return dict.fromkeys(case.gpu_models, seconds)
    steps = {model: by_gpu[model].step_milliseconds for model in kind.real}
    on = (
        case.ran_on if case.ran_on in steps else sorted(steps, key=lambda model: (steps[model], model))[len(steps) // 2]
    )
    return {model: seconds * step / steps[on] for model, step in steps.items()}


def _length(case: cases.Case, known: Sequence[float], window: Window, *, seed: int) -> float | None:
    """Return how long it would run alone within the replay; None: to its end."""
    luck = chance("length", case.namespace, case.name, seed)
    if case.serves and case.ended is None:
        return None
    before = 0.0 if case.started is None else case.pace * max((window.begin - case.started).total_seconds(), 0.0)
    whole = None if case.ran_seconds is None else case.pace * case.ran_seconds
    if whole is None:
        elapsed = 0.0 if case.started is None else case.pace * max((window.taken - case.started).total_seconds(), 0.0)
        whole = _waits(known, luck) if case.started is None else _goes_on(elapsed, known, luck)
    return max(whole - before, _LEAST_SECONDS)


def _waits(known: Sequence[float], luck: random.Random) -> float:
    if len(known) >= FEWEST:
        return luck.choice(known)
    return SHORTEST_SECONDS * math.pow(LONGEST_SECONDS / SHORTEST_SECONDS, luck.random())


def _goes_on(elapsed: float, known: Sequence[float], luck: random.Random) -> float:
    longer = known[bisect.bisect_right(known, elapsed) :]
    if len(longer) >= FEWEST:
        return luck.choice(longer)
    return elapsed * (1 + math.exp(luck.gauss(0, 1)))
