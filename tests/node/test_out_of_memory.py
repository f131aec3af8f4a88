"""A job that runs out of GPU memory, in real containers: kubelet hands on its last words, and it gets more."""

from cluster.workloads import Workspace, graph_document
from cotenant_api import names, quantity
from cotenant_api.dljob import Phase
from cotenant_e2e.client import Json
from cotenant_e2e.node import agents
from node import tenants as kit
from node.tenants import Tenants

SECONDS = 120
LAST_WORDS = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PROGRAM = f"""
if [ "$COTENANT_ATTEMPT" -lt 3 ]; then echo "{LAST_WORDS}" >&2; exit 1; fi
echo "attempt $COTENANT_ATTEMPT has enough"
"""


def template() -> Json:
    container = {
        "name": "main",
        "image": agents.CLIENT_IMAGE,
        "securityContext": agents.CLIENT_USER,
        "command": ["sh", "-c", PROGRAM],
    }
    grace = {"terminationGracePeriodSeconds": kit.GRACE_SECONDS, "automountServiceAccountToken": False}
    return {"spec": {"containers": [container], **grace}}


def test_a_job_that_prints_a_cuda_out_of_memory_error_twice_succeeds_with_more(
    tenants: Tenants, space: Workspace
) -> None:
    model = space.graph("graph", graph_document(flops=10**6, repeat=10))
    space.dljob("train", model=model, gpuMemory="1Gi", template=template())
    space.wait_for_phase("train", Phase.SUCCEEDED, SECONDS)
    (pod,) = tenants.of_job("train-3")
    assert tenants.lines(pod)[-1] == "attempt 3 has enough"
    assert quantity.mebibytes(pod["metadata"]["annotations"][names.GPU_MEMORY], field="memory") == 2304
    failed = [str(event["message"]) for event in space.events() if event["reason"] == "AttemptFailed"]
    assert [LAST_WORDS in words for words in failed] == [True, True]
