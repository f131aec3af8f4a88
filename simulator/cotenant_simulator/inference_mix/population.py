"""Which services and training jobs there are: drawn by a seed from graphs, at rates and lengths as stated here.

Assumed, all of it:

- services are drawn from the inference graphs, each with one replica, at a load drawn uniformly from a range. The load
  is the part of the time in which the replica answers if it has a GPU to itself. A request is a batch of the graph's
  size; `slo.requestsPerSecond` counts samples, as the operator books them (`operator`, `graphs/sources.py`);
- every service promises 99 % of its answers within so many times the step alone (`slo.latencyMilliseconds`);
- the first half of the services are there from the beginning, the others come at uniform times in the first half;
- training jobs come independently of each other, so many that they would keep `TRAINING_LOAD` times the GPUs busy if
  each had one to itself; they train for 2 minutes to 2 hours alone, log-uniform;
- services have a higher priority than training, which is evicted for them, and share its namespace.
"""

import gzip
import importlib.resources
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cotenant_api import dljob, errors, prediction
from cotenant_api.graph import Graph, Inference, Mode
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import prediction as predicting

TRAINING_LOAD: Final = 1.5
SHORTEST_SECONDS: Final = 120.0
LONGEST_SECONDS: Final = 7200.0
PERCENTILE: Final = dljob.SLO().percentile
_MEAN_SECONDS: Final = (LONGEST_SECONDS - SHORTEST_SECONDS) / math.log(LONGEST_SECONDS / SHORTEST_SECONDS)
_SUFFIXES: Final = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """One replica of an inference job.

    Attributes:
        arrives: seconds since the beginning.
        predicted: with the declared rate, by which it is booked.
        average: what it needs over its idle time.
        answering: what it needs while it never idles.
        batches_per_second: requests that come, on average.
        step_seconds: what one takes alone.
        promised_seconds: what most may take at most, the wait included.
    """

    name: str
    arrives: float
    predicted: prediction.Prediction
    average: prediction.GPUPrediction
    answering: prediction.GPUPrediction
    batches_per_second: float
    step_seconds: float
    promised_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """One training job; `seconds` alone."""

    name: str
    arrives: float
    predicted: prediction.Prediction
    needs: prediction.GPUPrediction
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much there is of what.

    Attributes:
        gpus: all of one model.
        services: with one replica each.
        hours: that are simulated.
        load: least and most of a service, 0..1.
        promise: what a service promises, in steps alone.
    """

    gpus: int
    services: int
    hours: float
    load: tuple[float, float]
    promise: float

    @property
    def seconds(self) -> float:
        """That are simulated."""
        return 3600 * self.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Graphs by name, as predicted on the one GPU model that there is.

    Attributes:
        serving: inference graphs without a declared rate, and what they need while they never idle.
        training: what training graphs need.
    """

    device: Device
    knowledge: predicting.Knowledge
    serving: Mapping[str, tuple[Graph, prediction.GPUPrediction]]
    training: Mapping[str, prediction.Prediction]


def shipped() -> Mapping[str, Graph]:
    """Return the graphs of the examples that ship, by name."""
    folder = importlib.resources.files(__package__).joinpath("graphs")
    files = {file.name: file for file in folder.iterdir() if file.name.endswith(".json.gz")}
    return {
        name.removesuffix(".json.gz"): Graph.read(gzip.decompress(file.read_bytes()), source=name)
        for name, file in sorted(files.items())
    }


def read(folder: Path) -> Mapping[str, Graph]:
    """Every graph document in a folder, by name of its file.

    Raises:
        InvalidInputError: it is no folder, or a document in it is no graph.
    """
    if not folder.is_dir():
        raise errors.InvalidInputError("--graphs", str(folder), "must be a folder with graph documents")
    files = sorted(file for file in folder.iterdir() if file.name.endswith(_SUFFIXES))
    return {file.name.partition(".json")[0]: Graph.read(file.read_bytes(), source=str(file)) for file in files}


def mix(graphs: Mapping[str, Graph], device: Device, knowledge: predicting.Knowledge) -> Mix:
    """Return what is predicted of the graphs that suit the GPU model.

    Raises:
        InvalidInputError: no inference graph does, or no training graph.
    """
    serving, training = {}, {}
    for name, graph in graphs.items():
        if graph.mode is Mode.TRAINING:
            found = predicting.predict(graph, (device,), knowledge=knowledge)
            if not found.by_gpu[device.name].out_of_domain:
                training[name] = found
            continue
        busy = graph.model_copy(update={"inference": None})
        needs = predicting.predict(busy, (device,), knowledge=knowledge).by_gpu[device.name]
        if not needs.out_of_domain:
            serving[name] = busy, needs
    for mode, names in ((Mode.INFERENCE, serving), (Mode.TRAINING, training)):
        if not names:
            remedy = f"must hold a graph of mode {mode} that suits {device.name}"
            raise errors.InvalidInputError("--graphs", sorted(graphs), remedy)
    return Mix(device=device, knowledge=knowledge, serving=serving, training=training)


def services(known: Mix, scale: Scale, *, seed: int) -> Sequence[Service]:
    """Return the services, by when they come."""
    chance = random.Random(f"services {seed}")  # noqa: S311 -- the same draw everywhere, not a secret
    names = list(known.serving)
    found = [
        _service(known, scale, name=chance.choice(names), load=chance.uniform(*scale.load), number=number)
        for number in range(scale.services)
    ]
    late = sorted(chance.uniform(0.0, scale.seconds / 2) for _ in found[(len(found) + 1) // 2 :])
    times = [0.0] * (len(found) - len(late)) + late
    return [replace(one, arrives=seconds) for one, seconds in zip(found, times, strict=True)]


def trainings(known: Mix, scale: Scale, *, seed: int) -> Sequence[Training]:
    """Return the training jobs, by when they come."""
    chance, now = random.Random(f"training {seed}"), 0.0  # noqa: S311
    found: list[Training] = []
    names, rate = list(known.training), TRAINING_LOAD * scale.gpus / _MEAN_SECONDS
    while True:
        now += chance.expovariate(rate)
        if now >= scale.seconds:
            return found
        name = chance.choice(names)
        found.append(
            Training(
                name=name,
                arrives=now,
                predicted=known.training[name],
                needs=known.training[name].by_gpu[known.device.name],
                seconds=SHORTEST_SECONDS * (LONGEST_SECONDS / SHORTEST_SECONDS) ** chance.random(),
            )
        )


def _service(known: Mix, scale: Scale, *, name: str, load: float, number: int) -> Service:
    graph, answering = known.serving[name]
    step = answering.step_milliseconds / 1000
    declared = Inference(requests_per_second=load / step * graph.batch_size)
    asked = graph.model_copy(update={"inference": declared}).sealed()
    predicted = predicting.predict(asked, (known.device,), knowledge=known.knowledge)
    return Service(
        name=f"{name}-{number}",
        arrives=0.0,
        predicted=predicted,
        average=predicted.by_gpu[known.device.name],
        answering=answering,
        batches_per_second=load / step,
        step_seconds=step,
        promised_seconds=scale.promise * step,
    )
