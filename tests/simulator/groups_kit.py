"""Pairs and triples as a simulated GPU gives them: by the model of the profiler's simulated device, and marked so."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotenant_api.graph import Graph, Mode
from cotenant_api.measurement import CoTenant, Environment, Measurement, Mechanism, Outcome, Values
from cotenant_api.names import GPUModel
from cotenant_predictor.datasets import joint, measurements
from cotenant_predictor.evaluation import colocation
from cotenant_predictor.profiling import catalog
from cotenant_predictor.profiling.simulated import physics
from predictor_kit import synthetic

GPU_MODEL = GPUModel(synthetic.GPU_MODELS[0])
_NOWHERE = Environment(driver="simulated", cuda="none", torch="none", cpu="none", commit="none")


def write(folder: Path, *, jobs: int = 6, sizes: Sequence[int] = (2, 3)) -> Path:
    """A file with the graphs of so many jobs, each alone, and every group of these sizes."""
    graphs = synthetic.graphs(jobs, scales=(1,))
    lines = [line for size in (1, *sizes) for line in lines_of(graphs, size)]
    return synthetic.write(folder / "groups.jsonl", graphs, lines)


def bench(folder: Path, *, jobs: int = 6, sizes: Sequence[int] = (2, 3)) -> colocation.Bench:
    """The same, read."""
    read = measurements.load([write(folder, jobs=jobs, sizes=sizes)], simulated=True)
    (found,) = colocation.benches(joint.of_measurements(read))
    return found


def lines_of(graphs: Sequence[Graph], size: int) -> Iterator[Measurement]:
    """A line for each job of each group."""
    for number, group in enumerate(itertools.combinations(graphs, size)):
        for place, graph in enumerate(group):
            others = group[:place] + group[place + 1 :]
            yield _line(graph, others, name=f"{size}-{number}")


def _line(graph: Graph, others: Sequence[Graph], *, name: str) -> Measurement:
    own = demand(graph)
    if others:
        neighbours = [physics.Load(demand(other), "mps") for other in others]
        values = Values(normalized_speed=physics.speed(physics.Load(own, "mps"), neighbours))
    else:
        values = Values(
            utilization=100 * own.busy,
            sm_activity=100 * own.sm,
            dram_activity=100 * own.dram,
            memory_peak_mib=own.memory_mib,
        )
    missing = [key for key, value in values.model_dump(by_alias=True).items() if value is None]
    return Measurement(
        id=name if others else f"alone-{graph.name}",
        group=synthetic.group_of(graph),
        graph=graph.digest,
        gpu_model=GPU_MODEL,
        mechanism=Mechanism.MPS if others else Mechanism.ALONE,
        co_tenants=tuple(CoTenant(graph=other.digest) for other in others),
        duration_seconds=15.0,
        outcome=Outcome.OK,
        simulated=True,
        values=values,
        reasons=dict.fromkeys(missing, "simulated"),
        environment=_NOWHERE,
    )


def demand(graph: Graph) -> physics.Demand:
    """What the simulated device makes of a job of this name."""
    training = graph.mode is Mode.TRAINING
    return physics.demand(catalog.Job(graph.name, "", "", graph.name, graph.batch_size, training=training))
