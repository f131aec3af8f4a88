"""What a job will be booked for on each GPU model, how long it runs, and what that costs. Pure arithmetic.

`run hours = steps x step milliseconds / 3.6e6`, alone on the GPU
`cost an hour = price of a GPU hour x hundredths / 100 x replicas`

Hundredths and memory are those of `cotenant_api.booking`, which operator and extender book by.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import (
    booking,
    dljob,
    documents,
    errors,
    gpunode,
    names,
    packingpolicy,
    quantity,
    suggestions,
    written,
)
from cotenant_api.names import GPUModel
from cotenant_api.prediction import GPUPrediction, Prediction
from cotenant_cli.reading import objects

_MILLISECONDS_PER_HOUR: Final = 3_600_000
_PRICES: Final = "--prices"
Prices = Mapping[GPUModel, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """GPUs of one model in a cluster: how many give shares, and the memory of the smallest."""

    count: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a prediction.

    Attributes:
        spec: of the DLJob.
        policy: in force, or its defaults.
        fleet: GPU models of the cluster; empty where it was not asked.
        steps: of the whole run; None: not told.
        prices: of an hour of a GPU.
    """

    spec: dljob.Spec
    policy: packingpolicy.Spec
    fleet: Mapping[GPUModel, Kind]
    steps: int | None
    prices: Prices


class Row(documents.Model):
    """On one GPU model. `gpus`: there are in the cluster; null: it was not asked. Costs are of all replicas."""

    gpu_model: str
    gpus: int | None
    share: int
    memory_mib: int
    step_milliseconds: float
    bound_by: str
    run_hours: float | None
    cost_per_hour: float | None
    cost: float | None
    note: str | None


class Estimate(documents.Document):
    """What `cotenant submit --dry-run` shows."""

    name: str
    namespace: str
    graph: str
    predictor: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def fleet_of(nodes: Iterable[objects.Node]) -> dict[GPUModel, Kind]:
    """Return the GPUs that give shares, by model."""
    found: dict[GPUModel, Kind] = {}
    for node in nodes:
        for gpu in node.status.gpus:
            if gpu.mode in (gpunode.Mode.SHARED, gpunode.Mode.WHOLE):
                old = found.get(gpu.model, Kind(count=0, memory_mib=gpu.memory_mib))
                found[gpu.model] = Kind(count=old.count + 1, memory_mib=min(old.memory_mib, gpu.memory_mib))
    return found


def prices_of(text: str, *, source: str) -> dict[GPUModel, float]:
    """Prices of a GPU hour by GPU model.

    Raises:
        InvalidInputError: it is no such table.
    """
    found = written.one(text, field=_PRICES, source=source)
    if not isinstance(found, dict) or not found:
        raise errors.InvalidInputError(_PRICES, source, "must name GPU models and prices of an hour: NVIDIA-H200: 3.5")
    for model, price in found.items():
        number = isinstance(price, (int, float)) and not isinstance(price, bool)
        if not number or price < 0:
            raise errors.InvalidInputError(f"{source}: {model}", price, "must be a price of one GPU hour, such as 3.5")
    return {GPUModel(model): float(price) for model, price in found.items()}


def rows(document: Prediction, question: Question) -> tuple[Row, ...]:
    """Return a row for each GPU model of the prediction, the cheapest first, where prices are known; else by share."""
    trusted = {model: row for model, row in document.by_gpu.items() if not row.out_of_domain}
    alone = _alone(trusted, question)
    found = [
        _row(model, _booked(model, document, question, trusted=bool(trusted), alone=alone), document, question)
        for model in document.by_gpu
    ]
    return tuple(sorted(found, key=_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Booked:
    share: int
    note: str | None = None


def _alone(trusted: Mapping[GPUModel, GPUPrediction], question: Question) -> frozenset[GPUModel]:
    if question.spec.gpu_memory is not None:
        return frozenset()
    memory = {model: kind.memory_mib for model, kind in question.fleet.items()}
    return booking.alone_on(trusted, memory, question.policy.packing)


def _booked(
    model: GPUModel, document: Prediction, question: Question, *, trusted: bool, alone: frozenset[GPUModel]
) -> _Booked:
    """Hundredths of one replica, by the same rules as the operator's, and what is special about them."""
    spec, policy, row = question.spec, question.policy, document.by_gpu[model]
    whole = names.HUNDREDTHS * spec.gpus_per_replica
    if spec.sharing is dljob.Sharing.EXCLUSIVE or spec.gpus_per_replica > 1:
        return _Booked(share=whole, note="whole GPUs, as asked for")
    if policy.mode is packingpolicy.Mode.OBSERVE:
        return _Booked(share=whole, note="a whole GPU: the PackingPolicy only observes")
    if not trusted:
        holds = policy.queue.on_missing_prediction is packingpolicy.OnMissingPrediction.HOLD
        what = "it waits: the PackingPolicy holds what" if holds else "a whole GPU: this"
        return _Booked(share=whole, note=f"{what} cannot be predicted")
    if row.out_of_domain:
        return _Booked(share=whole, note="not used: what it needs there cannot be predicted")
    if alone:
        note = "a whole GPU: no shared one has the memory" if model in alone else "not used: it has too little memory"
        return _Booked(share=whole, note=note)
    kind = question.fleet.get(model)
    share = booking.requested_share(
        {model: row},
        policy.packing,
        source=document.source,
        gpu_mib={} if kind is None else {model: kind.memory_mib},
        annotated_mib=_annotated(spec),
    )
    return _Booked(share=share, note=_tight(model, row, question))


def _tight(model: GPUModel, row: GPUPrediction, question: Question) -> str | None:
    kind = question.fleet.get(model)
    if kind is None or _memory(row, question.spec) <= booking.bookable_mib(
        kind.memory_mib, question.policy.packing(model)
    ):
        return None
    return "not used: it has too little memory"


def _annotated(spec: dljob.Spec) -> int | None:
    return None if spec.gpu_memory is None else quantity.mebibytes(spec.gpu_memory, field="spec.gpuMemory")


def _memory(row: GPUPrediction, spec: dljob.Spec) -> int:
    return booking.booked_mib(share=0, annotated_mib=_annotated(spec), predicted=row, bookable=0)


def _row(model: GPUModel, booked: _Booked, document: Prediction, question: Question) -> Row:
    row, kind, price = document.by_gpu[model], question.fleet.get(model), question.prices.get(model)
    hours = None if question.steps is None else question.steps * row.step_milliseconds / _MILLISECONDS_PER_HOUR
    hourly = None if price is None else price * booked.share / names.HUNDREDTHS * question.spec.replicas
    return Row(
        gpu_model=model,
        gpus=None if not question.fleet else 0 if kind is None else kind.count,
        share=booked.share,
        memory_mib=_memory(row, question.spec),
        step_milliseconds=row.step_milliseconds,
        bound_by=row.regime.value,
        run_hours=hours,
        cost_per_hour=hourly,
        cost=None if hours is None or hourly is None else hours * hourly,
        note=booked.note,
    )


def _order(row: Row) -> tuple[bool, float, int, str]:
    unknown = float("inf")
    cost = row.cost if row.cost is not None else row.cost_per_hour if row.cost_per_hour is not None else unknown
    return bool(row.note and row.note.startswith("not used")), cost, row.share, row.gpu_model


def notes(question: Question, *, predicted: Iterable[GPUModel], unknown: Iterable[GPUModel]) -> Iterator[str]:
    """Yield what the figures rest on.

    Args:
        question: what is asked.
        predicted: GPU models that have a row.
        unknown: those that have none, as nothing is known of them.
    """
    if question.steps is not None:
        yield "RUN is alone on the GPU: neighbours make it longer"
    for model in unknown:
        yield f"{model}: nothing is known of this GPU model: its jobs get whole GPUs"
    for model in predicted if question.prices else ():
        if model not in question.prices:
            yield f"{model}: {_PRICES} names no price of it; {suggestions.advice(model, question.prices)}"
