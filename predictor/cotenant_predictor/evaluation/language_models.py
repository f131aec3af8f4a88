"""How far off the times of whole language models are, as NeuSight measured them, beside what was published.

    neusight, roofline, habitat    the columns of the published table, where they are filled
    physics                        the formula without learned kernels
    cotenant                       with the kernels and rates of the model; no row of the table is learned from

A phase takes as long as its kernels or its launches, whichever is more; phases were measured one after the other. The
measured loop on one GPU never cleared gradients, so each backward pass also added them to the earlier ones.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase
from cotenant_predictor.datasets import language_models as dataset
from cotenant_predictor.datasets.language_models import Run
from cotenant_predictor.evaluation import metrics, spreading
from cotenant_predictor.evaluation.report import Row, scored
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import host, prediction, roofline
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.prediction import Knowledge
from cotenant_predictor.kernels.model import KernelModel

Array: TypeAlias = npt.NDArray[Any]

TARGET: Final = "stepMilliseconds"
METRIC: Final = "mape"
UNSEEN: Final = "published-unseen"
"""Models or GPUs that NeuSight was not trained on: the published comparison."""
ALL: Final = "published-all"
PUBLISHED: Final = ("neusight", "roofline", "habitat")


def rows(knowledge: Knowledge = prediction.FORMULA, *, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Scores on the runs that were unseen and on all: a row over all GPUs, and one of each.

    Args:
        knowledge: the learned kernels and rates; without kernels there is no row of `cotenant`.
        progress: told what is being predicted.
    """
    runs = dataset.load()
    progress(f"{len(runs)} runs of language models")
    predicted = {name: _published(runs, name) for name in PUBLISHED}
    predicted["physics"] = np.array([milliseconds(run) for run in runs])
    if knowledge.kernels is not None:
        known, used = knowledge.kernels, knowledge.coefficients
        predicted["cotenant"] = np.array([milliseconds(run, known, coefficients=used) for run in runs])
    unseen = np.array([run.unseen for run in runs])
    return [
        row
        for split, keep in ((UNSEEN, unseen), (ALL, np.ones_like(unseen)))
        for name, values in predicted.items()
        for row in _scores(runs, values, keep, model=name, split=split)
    ]


def milliseconds(
    run: Run, model: KernelModel | None = None, *, coefficients: Coefficients = constants.FORMULA_1
) -> float:
    """Return what a run takes; without `model` by the formula alone."""
    spread = run.spread
    graph = run.graph if spread is None else spreading.part(run.graph, spread)
    if spread is None and run.mode == "train":
        graph = graph.model_copy(update={"operators": (*graph.operators, _accumulation(graph))})
    phases = dict.fromkeys(operator.phase for operator in graph.operators)
    busy = sum(_phase_seconds(_only(graph, phase), run, model, coefficients) for phase in phases)
    if spread is None:
        return 1e3 * busy
    link = dataset.links()[str(run.device.name)] * 1e9
    exchanged = spreading.exchange_seconds(run.graph, spread, link_bytes_per_second=link)
    return 1e3 * (busy * spreading.busy_share(spread) + exchanged)


def _phase_seconds(graph: Graph, run: Run, model: KernelModel | None, coefficients: Coefficients) -> float:
    gpus = roofline.devices_of([run.device])
    operators = roofline.operators_of(graph, coefficients)
    kernels = roofline.kernel_times(operators, gpus, model)
    busy = roofline.busy(
        operators, gpus, sm_share=np.ones_like(gpus.sm_count), coefficients=coefficients, kernels=kernels
    )
    return max(float(busy.total_seconds[0, 0]), host.launch_seconds(graph, operators, coefficients))


def _accumulation(graph: Graph) -> Operator:
    """Adding all gradients to those of the step before."""
    size = graph.parameter_bytes
    return Operator(
        operator_class=OperatorClass.ELEMENTWISE,
        name="aten::add_",
        phase=Phase.BACKWARD,
        bytes_read=2 * size,
        bytes_written=size,
        output_elements=graph.parameters,
    )


def _only(graph: Graph, phase: Phase) -> Graph:
    """Return the operators of one phase."""
    return graph.model_copy(update={"operators": tuple(one for one in graph.operators if one.phase is phase)})


def _published(runs: Sequence[Run], name: str) -> Array:
    return np.array([run.published.get(name, np.nan) for run in runs])


def _scores(runs: Sequence[Run], predicted: Array, keep: Array, *, model: str, split: str) -> Iterator[Row]:
    index = np.flatnonzero(keep & np.isfinite(predicted))
    measured = np.array([run.milliseconds for run in runs])[index]
    gpus = np.array([str(run.device.name) for run in runs])[index]
    row = Row(target=TARGET, split=split, model=model, metric=METRIC, value=np.nan, n=len(index))
    yield scored(row, metrics.mape, (measured, predicted[index]), list(gpus))
    for gpu in np.unique(gpus):
        mine = gpus == gpu
        yield Row(
            target=TARGET,
            split=split,
            model=model,
            metric=METRIC,
            value=metrics.mape(measured[mine], predicted[index][mine]),
            n=int(mine.sum()),
            group=str(gpu),
        )
