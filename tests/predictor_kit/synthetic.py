"""Synthetic measurements: graphs of the examples with a hidden truth, for tests alone and marked as simulated.

The truth is the formula times a factor of the architecture, times noise; so a model that learns must beat the formula.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cotenant_api.graph import Graph
from cotenant_api.measurement import CoTenant, Distribution, Environment, Measurement, Mechanism, Outcome, Values
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.jobs import features, prediction

GRAPHS = Path(__file__).parents[2] / "manifests/examples/graphs"
GPU_MODELS = ("NVIDIA-H200", "Tesla-V100-SXM2-32GB")
NOISE = 0.02
NOWHERE = Environment(driver="none", cuda="none", torch="none", cpu="none", commit="none")


def group_of(graph: Graph) -> str:
    """The architecture: the name without what tells sizes apart."""
    return graph.name.split("-")[0].rstrip("0123456789")


def graphs(count: int = 12, scales: Sequence[int] = (1, 2, 4)) -> list[Graph]:
    """The first examples, each with its batch as it is and enlarged."""
    files = sorted(GRAPHS.glob("*.json"))[:count]
    return [scaled(Graph.read(file.read_bytes(), source=file.name), factor) for file in files for factor in scales]


def scaled(graph: Graph, factor: int) -> Graph:
    """Roughly the same network on a larger batch."""
    names = ("flops", "bytes_read", "bytes_written", "output_elements")
    operators = tuple(
        operator.model_copy(update={name: factor * getattr(operator, name) for name in names})
        for operator in graph.operators
    )
    sizes = ("batch_size", "saved_activation_bytes", "input_bytes_per_step")
    changed = {name: factor * getattr(graph, name) for name in sizes}
    if graph.peak_activation_bytes is not None:
        changed["peak_activation_bytes"] = factor * graph.peak_activation_bytes
    return graph.model_copy(update={**changed, "operators": operators, "digest": ""}).sealed()


def alone(
    of: Sequence[Graph],
    *,
    gpu_models: Sequence[str] = GPU_MODELS,
    repeats: int = 1,
    seed: int = 0,
    targets: Sequence[str] = features.TARGETS,
) -> Iterator[Measurement]:
    """A line for each graph, GPU and repeat, with values of these targets alone."""
    random = np.random.default_rng(seed)
    known = devices.load()
    for graph in of:
        gpus = [known[GPUModel(name)] for name in gpu_models]
        estimates = features.estimates(prediction.step_of(graph, gpus))
        for index, gpu in enumerate(gpus):
            for repeat in range(repeats):
                noise = np.exp(random.normal(0.0, NOISE, size=len(features.TARGETS)))
                truth = {
                    name: float(estimates[name][index]) * factor_of(group_of(graph), name) * noise[column]
                    for column, name in enumerate(features.TARGETS)
                }
                yield line(graph, gpu.name, {name: truth[name] for name in targets}, repeat=repeat)


def pairs(of: Sequence[Graph], *, gpu_model: str = GPU_MODELS[0], seed: int = 0) -> Iterator[Measurement]:
    """Two lines for each pair of graphs: each keeps its share where both ask for more than the GPU has."""
    random = np.random.default_rng(seed)
    gpu = devices.load()[GPUModel(gpu_model)]
    busy = [float(prediction.step_of(graph, [gpu]).utilization[0]) / 100 for graph in of]
    for first, second in ((a, b) for a in range(len(of)) for b in range(a)):
        for own, other in ((first, second), (second, first)):
            speed = min(1.0, 1.0 / max(1.0, busy[own] + 0.9 * busy[other])) * float(np.exp(random.normal(0.0, NOISE)))
            values = Values(normalized_speed=speed)
            yield _document(
                of[own], gpu.name, values, id=f"pair-{first}-{second}", mechanism=Mechanism.MPS,
                co_tenants=(CoTenant(graph=of[other].digest, thread_percentage=100),),
            )  # fmt: skip


def line(graph: Graph, gpu_model: str, truth: dict[str, float], *, repeat: int = 0) -> Measurement:
    """One job alone, from the values of some of `features.TARGETS`."""
    step, memory = truth.get("stepMilliseconds"), truth.get("memoryPeakMiB")

    def percent(name: str) -> float | None:
        return min(100.0, truth[name]) if name in truth else None

    values = Values(
        utilization=percent("utilization"),
        sm_activity=percent("smActivity"),
        dram_activity=percent("dramActivity"),
        memory_utilization=percent("memoryUtilization"),
        memory_peak_mib=None if memory is None else round(memory),
        step_milliseconds=None if step is None else Distribution(mean=step, p50=step, p99=step, std=0.0),
        power_watts=truth.get("powerWatts"),
    )
    return _document(graph, gpu_model, values, id=f"{graph.digest}-{gpu_model}-{repeat}", repeat=repeat)


def factor_of(group: str, target: str) -> float:
    """What the formula misses of one architecture, the same in every run: it says too much, of memory too little."""
    digest = hashlib.sha256(f"{group} {target}".encode()).digest()
    return (1.2 if target == "memoryPeakMiB" else 0.5) + 0.3 * digest[0] / 255


def write(path: Path, of: Sequence[Graph], lines: Sequence[Measurement]) -> Path:
    """One file that holds graphs and lines."""
    texts = [graph.to_json() for graph in of] + [one.to_json() for one in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def _document(graph: Graph, gpu_model: str, values: Values, **more: object) -> Measurement:
    missing = [name for name, value in values.model_dump(by_alias=True).items() if value is None]
    keys = {
        "group": group_of(graph),
        "graph": graph.digest,
        "gpu_model": gpu_model,
        "mechanism": Mechanism.ALONE,
        "duration_seconds": 15.0,
        "outcome": Outcome.OK,
        "simulated": True,
        "values": values,
        "reasons": dict.fromkeys(missing, "synthetic"),
        "environment": NOWHERE,
        **more,
    }
    return Measurement.model_validate(keys)
