"""The simulator against the control plane it stands for: the same thirty jobs, the same placements, one by one.

A simulated run says in which order jobs come and end. The same comes and ends there, each after what the one before it
led to; whoever runs then must run where the simulator put it, with the same share, threads, memory and priority. What a
simulation leaves out (time between lift and binding, kube-scheduler, the operator's own waits) must not change that.

What does hang on time is kept out, for time passes otherwise there: `maxWaitSeconds` is so long that shares alone make
the order of the queue, and nobody waits for `scaleUpAfterSeconds`, after which kube-scheduler tries any first.
"""

import collections
import contextlib
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import graph, names, packingpolicy, placement, prediction
from cotenant_api.names import GPUModel, NodeName
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.demo import examples
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction as predicting
from cotenant_predictor.models import store
from cotenant_simulator.engine import conditions, interference, jobs, ways, world
from cotenant_simulator.twin import sites

JOBS, SEED = 30, 7
MODELS = frozenset({GPUModel("NVIDIA-A100-80GB-PCIe"), GPUModel("NVIDIA-L4")})
"""Eight GPUs of the control plane: too few for all of the jobs at once."""
GRAPHS = (
    "bert-base-16",
    "dcgan-128",
    "densenet121-32",
    "efficientnet-b0-64",
    "lstm-16",
    "mobilenetv2-96",
    "resnet18-32",
    "resnet50-64",
    "shufflenetv2-128",
    "squeezenet-128",
    "swin-t-32",
    "vgg16-32",
)
"""Training steps, from such as leave most of a GPU idle to such as fill it."""
GPUNODES = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name=packingpolicy.NAME)


class Booked(NamedTuple):
    """What a job was given: its node, its GPU, and of that share, threads, memory and priority."""

    node: str
    booked: placement.GPUBooking


class Step(NamedTuple):
    """One job comes or ends, and who runs where afterwards."""

    job: str
    ends: bool
    running: Mapping[str, Booked]


def kinds() -> dict[str, tuple[graph.Graph, prediction.Prediction]]:
    """Each graph, and what the operator's model predicts for it on the cluster's GPUs."""
    knowledge, found = store.load().knowledge(), {}
    for name in GRAPHS:
        file = Path(examples.DIRECTORY, "graphs", f"{name}.json")
        document = graph.Graph.read(file.read_bytes(), source=file.name)
        found[name] = document, predicting.predict(document, devices.select(MODELS), knowledge=knowledge)
    return found


def given(known: Mapping[str, tuple[graph.Graph, prediction.Prediction]]) -> list[jobs.Job]:
    """The jobs: which, when and how long, by a seed."""
    chance = random.Random(SEED)  # noqa: S311 -- the same draw everywhere, not a secret
    as_predicted = {
        name: jobs.Kind(name=name, predicted=predicted, real=predicted.by_gpu) for name, (_, predicted) in known.items()
    }
    return [
        jobs.Job(
            name=f"job-{number:02}",
            kind=as_predicted[chance.choice(GRAPHS)],
            arrives=float(number),
            seconds=dict.fromkeys(MODELS, chance.uniform(20, 60)),
        )
        for number in range(JOBS)
    ]


def nodes_of(workspace: Workspace) -> list[sites.Node]:
    """The control plane's own GPUs, as its agents tell of them."""
    return [
        sites.Node(
            name=NodeName(raw["metadata"]["name"]),
            gpus=tuple(
                sites.GPU(uuid=gpu["uuid"], model=gpu["model"], memory_mib=gpu["memoryMiB"])
                for gpu in raw["status"]["gpus"]
            ),
        )
        for raw in workspace.client.items(GPUNODES)
    ]


def simulated(workspace: Workspace, asked: list[jobs.Job]) -> list[Step]:
    """What comes and ends in virtual time, in order, under the policy that is in force there."""
    nodes = nodes_of(workspace)
    policy = packingpolicy.PackingPolicy.from_object(workspace.client.get(POLICY))
    speeds = interference.Interference(store.load().colocation, interference.MPS)
    made = world.World(nodes, asked, way=ways.Predicted(), policy=policies.InForce(policy), speeds=speeds)
    found = made.run(under=conditions.Conditions(spans=True))
    node_of = {gpu.uuid: node.name for node in nodes for gpu in node.gpus}
    assert all(life.ended is not None and life.attempts == 1 for life in found.lives)
    comes = [(job.arrives, False, job.name) for job in asked]
    ends = [(life.ended or 0.0, True, life.name) for life in found.lives]
    steps = []
    for now, ending, job in sorted(comes + ends):
        there = [span for span in found.spans or () if span.start <= now < span.end]
        running = {asked[span.place].name: Booked(node_of[span.gpu], span.booked) for span in there}
        steps.append(Step(job, ending, running))
    return steps


@pytest.fixture
def patient(workspace: Workspace) -> Iterator[None]:
    """Shares alone make the order of the queue, and nobody is shown to an autoscaler."""
    changed = {"maxWaitSeconds": 604800, "scaleUpAfterSeconds": 86400}
    queue = workspace.client.get(POLICY)["spec"]["queue"]
    workspace.client.patch(POLICY, {"spec": {"queue": changed}})
    yield
    workspace.client.patch(POLICY, {"spec": {"queue": {name: queue[name] for name in changed}}})


@pytest.fixture
def graphs(workspace: Workspace) -> Mapping[str, Json]:
    """References to the graphs, which lie in the workspace."""
    return {name: workspace.graph(name, document) for name, (document, _) in kinds().items()}


def booked(pod: Json) -> Booked:
    """What a bound pod was given."""
    found = placement.Placement.from_json(pod["metadata"]["annotations"][names.PLACEMENT], source="annotation")
    (gpu,) = found.gpus
    return Booked(found.node, gpu)


def running(workspace: Workspace) -> dict[str, Booked]:
    """Who runs where, by job."""
    return {
        pod["metadata"]["labels"][names.DLJOB_LABEL]: booked(pod)
        for pod in workspace.client.items(workspace.pods())
        if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Succeeded"
    }


def settled(workspace: Workspace, job: str) -> bool:
    """Whether a job that came runs, or has been told why it waits."""
    pods = workspace.client.items(workspace.pods(), labelSelector=f"{names.DLJOB_LABEL}={job}")
    return any(pod["spec"].get("nodeName") or workspace.packed(pod["metadata"]["name"]) for pod in pods)


def waiting_there(workspace: Workspace) -> str:
    """What the extender tells of those that wait."""
    waits = [
        pod["metadata"]["name"] for pod in workspace.client.items(workspace.pods()) if not pod["spec"].get("nodeName")
    ]
    return "; ".join(f"{name}: {workspace.packed(name).get('message')}" for name in waits)


def waiting_after(number: int, steps: list[Step]) -> int:
    """How many jobs that have come wait after a step."""
    ended = sum(step.ends for step in steps[: number + 1])
    return number + 1 - 2 * ended - len(steps[number].running)


def most_tenants(step: Step) -> int:
    """Of one GPU."""
    return max(collections.Counter(one.booked.uuid for one in step.running.values()).values(), default=0)


def differences(there: Mapping[str, Booked], simulated: Mapping[str, Booked]) -> str:
    """Who runs otherwise, or on one side alone."""
    others = [name for name in sorted({*there, *simulated}) if there.get(name) != simulated.get(name)]
    return "; ".join(f"{name}: {there.get(name)} there, {simulated.get(name)} simulated" for name in others)


@pytest.mark.usefixtures("patient")
def test_thirty_jobs_run_where_the_simulator_puts_them(workspace: Workspace, graphs: Mapping[str, Json]) -> None:
    asked = given(kinds())
    by_name = {job.name: job for job in asked}
    steps = simulated(workspace, asked)
    assert max(waiting_after(number, steps) for number in range(len(steps))) >= 5
    assert max(map(most_tenants, steps)) == 3
    for number, step in enumerate(steps):
        if step.ends:
            workspace.end_pods(step.job)
        else:
            workspace.dljob(
                step.job,
                model=graphs[by_name[step.job].kind.name],
                gpuModels=sorted(MODELS),
                template=template(run_for=""),
            )
            waiting.wait_until(lambda: settled(workspace, step.job), f"{step.job} looked at", SECONDS)  # noqa: B023
        with contextlib.suppress(waiting.NotReadyError):
            waiting.wait_until(lambda: running(workspace) == step.running, "as simulated", SECONDS)  # noqa: B023
        now = running(workspace)
        told = f"step {number}, {step.job} {'ends' if step.ends else 'comes'}: {differences(now, step.running)}"
        assert now == step.running, f"{told}; {waiting_there(workspace)}"
