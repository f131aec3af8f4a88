"""Writes the snapshots that docs/what-if shows: a cluster that was simulated, as an API server would have listed it.

    PYTHONPATH=tests python -m simulator.example_cluster docs/what-if

Sixteen GPUs of two models, and 160 jobs of ten hours: graphs and predictions are those of manifests/examples by the
model that ships; arrivals, run times and true needs are drawn from a seed. What had happened by then, the simulator
decided: once by prediction under the policy that ships, once with whole GPUs. `prometheus.json` holds what monitoring
would have recorded of most of the latter, in the shape of its answers.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cotenant_api import names, packingpolicy, prediction
from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction as predicting
from cotenant_predictor.models import store
from cotenant_simulator.cluster import cases, needs
from cotenant_simulator.engine import conditions, history, interference, jobs, ways, world
from cotenant_simulator.live import dcgm, taking
from cotenant_simulator.twin import sites
from simulator import objects_kit as kit

SEED: Final = 20260131
MODELS: Final = (GPUModel("NVIDIA-A100-80GB-PCIe"), GPUModel("NVIDIA-H200"))
NODES, GPUS_PER_NODE, JOBS = 2, 4, 160
SECONDS: Final = 36_000.0
SHORTEST, LONGEST = 600.0, 14_400.0
MONITORED: Final = 0.8
GRAPHS: Final = Path(__file__).parents[2] / "manifests" / "examples" / "graphs"
TEAMS: Final = ("vision", "language", "speech")


class Made(NamedTuple):
    """One job, and what is believed of it."""

    job: jobs.Job
    document: prediction.Prediction


def nodes() -> tuple[sites.Node, ...]:
    """Both kinds."""
    found = []
    for model in MODELS:
        (device,) = devices.select([model])
        prefix = model.partition("-")[2].partition("-")[0].lower()
        for node in sites.alike(NODES, gpus=GPUS_PER_NODE, model=model, memory_mib=device.memory_mib):
            name = names.NodeName(f"{prefix}-{node.name[-1]}")
            gpus = tuple(
                sites.GPU(uuid=names.GPUUID(f"GPU-{name}-{index}"), model=gpu.model, memory_mib=gpu.memory_mib)
                for index, gpu in enumerate(node.gpus)
            )
            found.append(sites.Node(name=name, gpus=gpus))
    return tuple(found)


def population() -> list[Made]:
    """The jobs, by arrival."""
    chance = random.Random(SEED)  # noqa: S311 -- draws, not secrets
    knowledge, known = store.load().knowledge(), []
    for file in sorted(GRAPHS.glob("*.json")):
        graph = Graph.read(file.read_bytes(), source=file.name)
        if graph.mode == "Training":
            known.append((file.stem, predicting.predict(graph, devices.select(MODELS), knowledge=knowledge)))
    kinds = [_kind(name, document, chance) for name, document in known]
    made = []
    for number in range(JOBS):
        kind = chance.choice(kinds)
        seconds = SHORTEST * (LONGEST / SHORTEST) ** chance.random()
        step = kind.predicted.by_gpu[MODELS[0]].step_milliseconds if kind.predicted else 1.0
        by_model = {model: round(seconds * row.step_milliseconds / step) for model, row in kind.real.items()}
        job = jobs.Job(
            name=f"{kind.name}-{number:02}",
            kind=kind,
            arrives=round(SECONDS * chance.random()),
            seconds={model: float(min(length, SECONDS)) for model, length in by_model.items()},
            namespace=names.Namespace(chance.choice(TEAMS)),
        )
        if kind.predicted is not None:
            made.append(Made(job, kind.predicted))
    return sorted(made, key=lambda one: one.job.arrives)


def ran(made: Sequence[Made], way: ways.Way) -> history.History:
    """What happened."""
    policy = policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=packingpolicy.Spec()))
    speeds = interference.Interference(store.load().colocation, interference.MPS)
    simulated = world.World(nodes(), [one.job for one in made], way=way, policy=policy, speeds=speeds)
    return simulated.run(under=conditions.Conditions(spans=True))


def listed(made: Sequence[Made], found: history.History, *, shares: bool) -> taking.Lists:
    """What an API server would have listed at the time of the snapshot."""
    spans = {span.place: span for span in found.spans or ()}
    pods = [
        _pod(one, life, spans.get(place), shares=shares)
        for place, (one, life) in enumerate(zip(made, found.lives, strict=True))
        if life.arrived <= SECONDS
    ]
    raw = [_node(node, shares=shares) for node in nodes()]
    agents = [_agent(node) for node in nodes()] if shares else []
    return kit.lists(nodes=raw, gpunodes=agents, pods=pods, policies=[kit.policy()] if shares else [])


def answers(made: Sequence[Made], found: history.History) -> Mapping[str, Any]:
    """What Prometheus would have answered of most of those that ran."""
    chance = random.Random(SEED + 1)  # noqa: S311
    spans = {span.place: span for span in found.spans or ()}
    models = {gpu.uuid: gpu.model for node in nodes() for gpu in node.gpus}
    metrics: dict[str, list[dict[str, Any]]] = {dcgm.UTILIZATION: [], dcgm.MEMORY: []}
    for place, (one, life) in enumerate(zip(made, found.lives, strict=True)):
        span = spans.get(place)
        if span is None or life.started is None or life.started > SECONDS or chance.random() > MONITORED:
            continue
        real = one.job.kind.real[models[span.gpu]]
        labels = {"exported_namespace": str(one.job.namespace), "exported_pod": one.job.name, "UUID": str(span.gpu)}
        for metric, value in ((dcgm.UTILIZATION, real.utilization.q50), (dcgm.MEMORY, real.memory_mib.q50)):
            metrics[metric].append({"metric": labels, "value": [kit.NOW.timestamp(), f"{value:.1f}"]})
    return {
        metric: {"status": "success", "data": {"resultType": "vector", "result": result}}
        for metric, result in metrics.items()
    }


def write(folder: Path) -> None:
    """All files, whole."""
    folder.mkdir(parents=True, exist_ok=True)
    made = population()
    for name, way, shares in (("cluster", ways.Predicted(), True), ("plain-cluster", ways.Slot(), False)):
        found = ran(made, way)
        whole = taking.taken(listed(made, found, shares=shares), now=kit.NOW)
        (folder / f"{name}.json").write_text(whole.to_json() + "\n")
        if not shares:
            (folder / "prometheus.json").write_text(json.dumps(answers(made, found), sort_keys=True) + "\n")


def _kind(name: str, document: prediction.Prediction, chance: random.Random) -> jobs.Kind:
    """Needs within the predictor's own errors, on GPU models that are within its domain."""
    rows = {model: row for model, row in document.by_gpu.items() if not row.out_of_domain}
    kept = document.model_copy(update={"by_gpu": rows}) if rows else None
    error = needs.Error(activity=chance.gauss(0, 1), memory=chance.gauss(0, 1))
    memory = {device.name: device.memory_mib for device in devices.select(MODELS)}
    return jobs.Kind(name=name, predicted=kept, real=needs.real(rows, _nobody(), error, memory=memory))


def _nobody() -> cases.Case:
    (found,) = cases.of(kit.packing([kit.predicted("nobody")]))
    return found


def _ago(seconds: float) -> float:
    """Minutes before the snapshot."""
    return (SECONDS - seconds) / 60


def _pod(one: Made, life: history.Life, span: history.Span | None, *, shares: bool) -> kit.Object:
    started = life.started if life.started is not None and life.started <= SECONDS else None
    ended = life.ended if life.ended is not None and life.ended <= SECONDS else None
    policy = policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=packingpolicy.Spec()))
    booked = ways.Predicted().booking(one.job, ways.NOTHING, policy)
    notes = {names.PREDICTION: one.document.to_json(), names.GPU_MODELS: ",".join(one.document.by_gpu)}
    made = kit.pod(
        one.job.name,
        share=booked.share if shares and booked is not None else 0,
        whole=0 if shares else 1,
        created=_ago(life.arrived),
        started=None if started is None else _ago(started),
        finished=None if ended is None else _ago(ended),
        node_name="" if span is None else span.gpu.removeprefix("GPU-").rpartition("-")[0],
        annotations=notes if shares else {},
    )
    made["metadata"]["namespace"] = str(one.job.namespace)
    if shares and started is not None and span is not None:
        gpu = {"uuid": span.gpu, "share": span.share, "activeThreadPercentage": 100, "memoryMiB": 0}
        document = {"v": 1, "podUID": made["metadata"]["uid"], "node": made["spec"]["nodeName"], "container": "main"}
        backend = {"policyGeneration": 3, "backend": "MPS", "gpus": [gpu]}
        made["metadata"]["annotations"][names.PLACEMENT] = json.dumps(document | backend)
    return made


def _node(node: sites.Node, *, shares: bool) -> kit.Object:
    made = kit.node(node.name, gpus=len(node.gpus), share=shares, product=node.gpus[0].model)
    made["metadata"]["labels"]["nvidia.com/gpu.memory"] = str(node.gpus[0].memory_mib)
    return made


def _agent(node: sites.Node) -> kit.Object:
    made = kit.gpunode(node.name, gpus=len(node.gpus))
    for told, gpu in zip(made["status"]["gpus"], node.gpus, strict=True):
        told |= {"uuid": gpu.uuid, "model": gpu.model, "memoryMiB": gpu.memory_mib}
    return made


if __name__ == "__main__":
    write(Path(sys.argv[1]))
