"""A job that always faults, among jobs that do nothing wrong, in real containers: it alone fails in the end.

No agent can tell whose a fault was: the MPS server of its GPU is at fault until all clients have ended, and NVML tells
an XID.
"""

from pathlib import Path
from typing import Final

from cluster.workloads import Workspace, graph_document
from cotenant_api import names, packingpolicy, placement
from cotenant_api.dljob import Phase
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.node import agents
from node import tenants as kit
from node.tenants import Tenants

SECONDS: Final = 150
TOLD: Final = "/told"
POISON: Final = f"until [ -e {TOLD}/begin ]; do sleep 1; done; exec cuda-client --memory 1 --hold 3 --crash"
QUIET: Final = f"(until [ -e {TOLD}/finish ]; do sleep 1; done; kill 1) & {kit.HOLD}"
NEIGHBOURS: Final = {"far": "90Gi", "a": "50Gi", "b": "50Gi"}
"""By their memory the first has a GPU, the others share the next one; each has room for one more job of 20Gi."""
RESTARTS: Final = 1
BOUND: Final = 2 * (packingpolicy.Packing().max_tenants_per_gpu - 1)


def template(script: str, told: Path) -> Json:
    container = {
        "name": "main",
        "image": agents.CLIENT_IMAGE,
        "securityContext": agents.CLIENT_USER,
        "command": ["sh", "-c", kit.SHOW + kit.GPU + script],
        "volumeMounts": [{"name": "told", "mountPath": TOLD, "readOnly": True}],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "told", "hostPath": {"path": str(told), "type": "Directory"}}],
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": kit.GRACE_SECONDS,
        "automountServiceAccountToken": False,
    }
    return {"spec": spec}


def gpu_of(pod: Json) -> str:
    booked = kit.placement_of(pod)
    assert booked
    return str(booked.gpus[0].uuid)


def attempt(tenants: Tenants, name: str, number: int) -> Json:
    """The only pod of an attempt, once its container has shown itself."""
    (pod,) = tenants.of_job(f"{name}-{number}")
    return tenants.running(pod["metadata"]["name"])


def named(space: Workspace) -> set[str]:
    """Pods that an agent has named as the cause of a fault."""
    told = (event for event in space.events() if event["message"].startswith("caused a fatal fault"))
    return {str(event["involvedObject"]["name"]) for event in told}


def test_a_job_that_always_faults_fails_alone_and_costs_its_neighbours_no_attempt(
    tenants: Tenants, space: Workspace, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    model = space.graph("graph", graph_document(flops=10**6, repeat=10))
    first = {}
    for name, memory in NEIGHBOURS.items():
        space.dljob(name, model=model, gpuMemory=memory, backoffLimit=0, template=template(QUIET, tmp_path))
        space.wait_for_phase(name, Phase.RUNNING, SECONDS)
        first[name] = gpu_of(attempt(tenants, name, 1))
        if name == "far":
            # It fills the first GPU that has room, until the poisonous job is on the second.
            tenants.create("guard", 30, annotations={names.GPU_MEMORY: "5Gi"})
            assert gpu_of(tenants.running("guard")) == first[name]
    assert first["a"] == first["b"] != first["far"]
    poison = template(POISON, tmp_path)
    space.dljob("poison", model=model, gpuMemory="20Gi", backoffLimit=RESTARTS, template=poison)
    space.wait_for_phase("poison", Phase.RUNNING, SECONDS)
    tenants.delete("guard")
    (tmp_path / "begin").touch()

    assert space.wait_for_phase("poison", Phase.FAILED, SECONDS)["attempts"] == 3
    assert space.condition("poison", "Failed")["reason"] == "BackoffLimitExceeded"
    alone = tenants.of_job("poison-3")
    assert {booked.backend for pod in alone if (booked := kit.placement_of(pod))} == {placement.Backend.WHOLE}
    assert len(alone) == RESTARTS + 1
    culprits = {pod["metadata"]["name"] for pod in alone}
    waiting.wait_until(lambda: named(space) == culprits, "the culprit named, and nobody else", kit.SECONDS)

    apart = [attempt(tenants, name, 2) for name in NEIGHBOURS]
    assert all(names.SUSPECT_SECONDS in pod["metadata"]["annotations"] for pod in apart)
    assert len({gpu_of(pod) for pod in apart}) == len(apart)
    (tmp_path / "finish").touch()
    restarts = [space.wait_for_phase(name, Phase.SUCCEEDED, SECONDS)["attempts"] - 1 for name in NEIGHBOURS]
    assert restarts == [1, 1, 1]
    assert sum(restarts) <= BOUND
