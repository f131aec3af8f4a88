"""Published baselines as placements, on a real control plane: operator and extender agree on what a DLJob costs."""

import json
from collections.abc import Callable, Iterator

import pytest

from cluster.workloads import Workspace, graph_document, placement_of, template
from cotenant_api import booking, dljob, names, packingpolicy, prediction
from cotenant_api.dljob import Phase
from cotenant_api.packingpolicy import Placement
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name=packingpolicy.NAME)
GPU_MODEL = "Tesla-T4"
BOOKABLE_MIB = booking.bookable_mib(15360, packingpolicy.Spec())
MEASURED_SECONDS = 150
"""A minute alone, the samples before it, and what the way there takes on a busy machine."""


@pytest.fixture
def under(workspace: Workspace) -> Iterator[Callable[[Placement], None]]:
    """Changes the placement; as it was before, afterwards."""
    before = workspace.client.get(POLICY)["spec"]["placement"]

    def change(placement: Placement) -> None:
        workspace.client.patch(POLICY, {"spec": {"placement": placement}})

    yield change
    workspace.client.patch(POLICY, {"spec": {"placement": before}})


def submitted(workspace: Workspace, name: str, *, model: Json) -> Json:
    """The pod of a DLJob that runs."""
    workspace.dljob(name, model=model, gpuModels=[GPU_MODEL], template=template(run_for="600s"))
    return running(workspace, name)


def running(workspace: Workspace, name: str) -> Json:
    status = workspace.wait_for_phase(name, Phase.RUNNING)
    return workspace.client.get(workspace.pods(status["replicas"][0]["pod"]))


def asked(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE])


def booked(pod: Json) -> int:
    (gpu,) = placement_of(pod)["gpus"]
    return int(gpu["share"])


def predicted(pod: Json) -> prediction.GPUPrediction:
    document = prediction.Prediction.from_json(pod["metadata"]["annotations"][names.PREDICTION], source="test")
    return document.by_gpu[names.GPUModel(GPU_MODEL)]


def test_operator_asks_for_what_the_extender_books(workspace: Workspace, under: Callable[[Placement], None]) -> None:
    model = workspace.graph("graph", graph_document(flops=10**6, repeat=10))
    usual = submitted(workspace, "usual", model=model)
    share = asked(usual)
    memory_part = booking.memory_part(predicted(usual).memory_mib.upper, BOOKABLE_MIB)
    assert memory_part < share == booked(usual) < names.HUNDREDTHS
    for placement, cost in (
        (Placement.EXCLUSIVE, names.HUNDREDTHS),
        (Placement.MEMORY_ONLY, memory_part),
        (Placement.SM_PERCENT, share),
        (Placement.MEM_PERCENT, share),
        (Placement.RANDOM, share),
    ):
        under(placement)
        pod = submitted(workspace, placement.lower(), model=model)
        assert (asked(pod), booked(pod)) == (cost, cost), placement
        assert placement_of(pod)["gpus"][0]["memoryMiB"] == predicted(pod).memory_mib.upper
    exclusive, random = (running(workspace, name.lower()) for name in (Placement.EXCLUSIVE, Placement.RANDOM))
    assert placement_of(exclusive)["backend"] == "Whole"
    assert placement_of(random)["backend"] == "MPS"


def test_reactive_packs_a_predicted_job_by_what_it_did_alone(
    workspace: Workspace, under: Callable[[Placement], None]
) -> None:
    under(Placement.REACTIVE)
    alone = submitted(workspace, "reactive", model=workspace.graph("graph", graph_document(flops=10**6, repeat=10)))
    assert (asked(alone), booked(alone)) == (names.HUNDREDTHS, names.HUNDREDTHS)
    assert workspace.condition("reactive", dljob.PREDICTED)["reason"] == "PredictionIgnored"

    def packed() -> bool:
        status = workspace.status("reactive")
        return status.get("attempts") == 2 and status["phase"] == Phase.RUNNING

    waiting.wait_until(packed, "the second attempt runs", MEASURED_SECONDS)
    pod = running(workspace, "reactive")
    assert json.loads(pod["metadata"]["annotations"][names.PREDICTION])["source"] == prediction.Source.PROFILE
    assert asked(pod) == booked(pod)
    assert placement_of(pod)["gpus"][0]["memoryMiB"] == predicted(pod).memory_mib.upper
