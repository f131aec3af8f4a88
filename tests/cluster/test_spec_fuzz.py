"""No DLJob is accepted that cannot run, unless its status says why: drawn specs, on a real API server."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster import dry_runs, odd_specs
from cluster.workloads import Workspace, graph_document
from cotenant_api import dljob
from cotenant_e2e.installation import Installation

EXAMPLES: Final = 300
POLICIES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"mode": "Observe"},
    {"tenantUser": "Any"},
    {"queue": {"onMissingPrediction": "Hold"}},
    {"queue": {"onMissingPrediction": "Profile"}},
)
OF_THE_CLUSTER: Final = re.compile(
    "error looking up service account|no PriorityClass with name|the integer value of priority|RuntimeClass"
)
"""What a pod is refused for that depends on other objects. The operator tells it as PodCreationFailed."""
NO_ANSWER: Final = ("resulted in error", "fails to evaluate")
"""What the API server says where a rule fails by itself, in the place of what is wrong."""
SHOWN: Final = 40
"""Characters of the API server's message that the status repeats."""


@pytest.fixture(scope="module")
def dry(installed: Installation) -> Iterator[dry_runs.DryRuns]:
    """The operator on the API server, in a namespace of its own."""
    space = Workspace(installed, "spec-fuzz")
    space.create()
    graph = {"metadata": {"name": odd_specs.GRAPH, "namespace": space.namespace}}
    yield dry_runs.DryRuns.on(
        installed.cluster, space.namespace, {**graph, "data": {"graph.json": graph_document().to_json()}}
    )
    space.remove()


@pytest.fixture(scope="module")
def specs(installed: Installation) -> odd_specs.Specs:
    """The strategies, with the types of this API server."""
    document = installed.cluster.client.get("/openapi/v3/api/v1")
    return odd_specs.Specs(document["components"]["schemas"])


def test_what_is_accepted_runs_or_says_why_not(dry: dry_runs.DryRuns, specs: odd_specs.Specs) -> None:
    seen: list[bool] = []

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        spec = specs.spec(data.draw)
        policy, quota = data.draw(st.sampled_from(POLICIES)), data.draw(st.booleans())
        trial = asyncio.run(dry.run(spec, policy=policy, quota=quota))
        seen.append(bool(trial.made))
        assert faults_of(trial) == []

    holds()
    # Else it would show nothing of what becomes of a DLJob.
    assert sum(seen) > EXAMPLES / 5


def faults_of(trial: dry_runs.Trial) -> list[str]:
    """Return what is wrong with what came of a DLJob."""
    if trial.refused:
        return [trial.refused for words in NO_ANSWER if words in trial.refused]
    found = [f"the operator failed {trial.faults} times"] if trial.faults else []
    found += [f"no pod can be created: {text}" for text in trial.lacking if not OF_THE_CLUSTER.search(text)]
    if not trial.conditions.get(dljob.QUEUED, {}).get("message"):
        found.append("the status says nothing of the queue")
    return found + [f"the status does not say {text}" for text in trial.rejected if not is_told(trial, text)]


def is_told(trial: dry_runs.Trial, text: str) -> bool:
    """Return whether a condition says that the API server refused a workload, and why."""
    told = [one for status in trial.statuses for one in status.get("conditions", ())]
    stalled = any(one["type"] == dljob.STALLED and one["status"] == "True" for one in told)
    return stalled and any(text[:SHOWN] in one.get("message", "") for one in told)
