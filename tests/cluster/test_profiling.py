"""Jobs that are measured alone, on a real control plane: the agents are simulated, and so is what they measure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cluster.workloads import Workspace, graph_document, placement_of, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import Installation

POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
MEASURED_SECONDS = 150
"""A minute alone, the samples before it, and what the way there takes on a busy machine."""


@dataclass(frozen=True)
class Measuring:
    """Two jobs that begin at once, each in a namespace of its own: each waits a minute for its measurement.

    Attributes:
        unknown: holds the DLJob `unknown`, which has no model.
        known: holds the DLJob `first`, which has one: `model`.
    """

    unknown: Workspace
    known: Workspace
    model: Json


@pytest.fixture(scope="module")
def measuring(installed: Installation) -> Iterator[Measuring]:
    """Both jobs, while the policy measures jobs without prediction, and corrects predictions."""
    unknown, known = (Workspace(installed, f"profiling-{word}") for word in ("unknown", "known"))
    for space in (unknown, known):
        space.create()
    changed = {"queue": {"onMissingPrediction": "Profile"}, "correction": "Hybrid"}
    known.client.patch(POLICY, {"spec": changed})
    model = known.graph("graph", graph_document(flops=10**6, repeat=10))
    unknown.dljob("unknown", gpuModels=["Tesla-T4"], template=template(run_for="600s"))
    known.dljob("first", model=model, gpuModels=["Tesla-T4"], template=template(run_for="90s"))
    yield Measuring(unknown, known, model)
    restored = {"queue": {"onMissingPrediction": "Exclusive"}, "correction": "None"}
    known.client.patch(POLICY, {"spec": restored})
    for space in (unknown, known):
        space.remove()


def kept(workspace: Workspace) -> list[str]:
    """The lines that are kept of the namespace."""
    name = f"cotenant-measurements-{workspace.namespace}"
    found = workspace.client.find(clients.path_of("configmaps", namespace=names.RELEASE_NAMESPACE, name=name))
    return [] if found is None else list(found["data"]["measurements.jsonl"].splitlines())


def test_a_job_without_model_is_measured_alone_and_then_packed(measuring: Measuring) -> None:
    space = measuring.unknown
    alone = space.wait_for_phase("unknown", Phase.RUNNING)
    assert [gpu["share"] for gpu in alone["replicas"][0]["gpus"]] == [100]

    def packed() -> bool:
        status = space.status("unknown")
        return status.get("attempts") == 2 and status["phase"] == Phase.RUNNING

    waiting.wait_until(packed, "the second attempt runs", MEASURED_SECONDS)
    status = space.status("unknown")
    pod = space.client.get(space.pods(status["replicas"][0]["pod"]))
    # A simulated pod without prediction is as busy as its share: 100 hundredths of the GPU.
    document = json.loads(pod["metadata"]["annotations"][names.PREDICTION])
    assert (document["source"], list(document["byGPU"])) == ("Profile", ["Tesla-T4"])
    row = document["byGPU"]["Tesla-T4"]
    booked = placement_of(pod)["gpus"][0]
    assert booked["memoryMiB"] == row["memoryMiB"]["upper"] < 15360
    assert status["prediction"]["source"] == "Profile"
    assert "Profiled" in {event["reason"] for event in space.events()}


def test_a_later_job_of_the_graph_is_corrected_by_what_was_measured(measuring: Measuring) -> None:
    space = measuring.known
    space.wait_for_phase("first", Phase.SUCCEEDED, MEASURED_SECONDS)
    measured = space.status("first")["observed"]
    assert measured["aloneSeconds"] >= 60
    space.dljob("second", model=measuring.model, gpuModels=["Tesla-T4"], template=template(run_for="5s"))
    running = space.wait_for_phase("second", Phase.SUCCEEDED)
    assert running["prediction"]["model"].endswith("+measured")
    assert running["prediction"]["utilizationPercent"] == measured["gpuUtilizationPercent"]
    waiting.wait_until(lambda: len(kept(space)) == 2, "both measurements are kept", 60)
    assert all(json.loads(line)["simulated"] for line in kept(space))
