"""A graph is extracted in a real container of the user's image, before the job trains on what was predicted from it."""

from pathlib import Path
from urllib.parse import urlsplit

from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.node import agents
from node import host_python
from node import tenants as kit
from node.tenants import Tenants

FOLDER = Path(__file__).parent
SECONDS = 120
MEMORY_MIB = 512


def template(tenants: Tenants, finish: Path) -> Json:
    """A pod with this machine's PyTorch, on the host's network: the API server is on loopback there."""
    finish.parent.chmod(0o755)
    server = urlsplit(tenants.cluster.settings.server)
    volumes, mounts = host_python.volumes(FOLDER, finish.parent)
    job = f"exec {host_python.python()} {FOLDER}/training_job.py {kit.PIPE} {MEMORY_MIB} {finish}"
    container = {
        "name": "main",
        "image": agents.CLIENT_IMAGE,
        "securityContext": agents.CLIENT_USER,
        "command": ["sh", "-c", kit.SHOW + kit.GPU + job],
        "workingDir": str(FOLDER),
        "env": [
            {"name": "PATH", "value": f"{host_python.python().parent}:/bin"},
            {"name": "KUBERNETES_SERVICE_HOST", "value": str(server.hostname)},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
        ],
        "volumeMounts": mounts,
    }
    grace = {"terminationGracePeriodSeconds": kit.GRACE_SECONDS, "automountServiceAccountToken": False}
    return {"spec": {"containers": [container], "volumes": volumes, "hostNetwork": True, **grace}}


def model(callable_name: str) -> Json:
    return {"entrypoint": {"callable": f"extracted_job:{callable_name}", "timeoutSeconds": 60}}


def test_a_pytorch_job_is_extracted_predicted_placed_and_trains(
    tenants: Tenants, space: Workspace, tmp_path: Path
) -> None:
    finish = tmp_path / "finish"
    space.dljob("train", model=model("build"), batchSize=256, gpuMemory="3Gi", template=template(tenants, finish))
    space.wait_for_condition("train", "Predicted", "False", "ExtractionRunning")
    space.wait_for_phase("train", Phase.RUNNING, SECONDS)
    status = space.status("train")
    assert space.condition("train", "Predicted")["status"] == "True"
    assert status["prediction"]["upperPercent"] < 100
    (pod,) = tenants.of_job("train-1")
    assert int(pod["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE]) < 100
    waiting.wait_until(
        lambda: space.status("train").get("observed", {}).get("memoryPeakMiB") == MEMORY_MIB, "observed memory", SECONDS
    )
    finish.touch()
    space.wait_for_phase("train", Phase.SUCCEEDED, SECONDS)
    assert any(line.startswith("trained torch=") for line in tenants.lines(pod))
    assert extractions(space) == []
    reasons = [event["reason"] for event in space.events() if event["involvedObject"]["kind"] == "DLJob"]
    assert {"ExtractionRunning", "Created", "Completed"} <= set(reasons)


def test_a_callable_that_raises_is_told_with_its_place_and_the_job_gets_a_gpu_of_its_own(
    tenants: Tenants, space: Workspace, tmp_path: Path
) -> None:
    finish = tmp_path / "finish"
    finish.touch()
    space.dljob("train", model=model("broken"), batchSize=256, template=template(tenants, finish))
    space.wait_for_condition("train", "Predicted", "False", "ExtractionFailed")
    message = space.condition("train", "Predicted")["message"]
    assert "ValueError: no layer takes 256 samples" in message
    assert "extracted_job.py:18 in broken" in message
    space.wait_for_phase("train", Phase.SUCCEEDED, SECONDS)
    waiting.wait_until(lambda: not extractions(space), "nothing left of the extraction", SECONDS)


def extractions(space: Workspace) -> list[str]:
    """Jobs, accounts and results that extractions have left."""
    found = []
    for plural, group in (("jobs", "batch"), ("serviceaccounts", ""), ("configmaps", "")):
        path = clients.path_of(plural, group=group, namespace=space.namespace)
        found += space.client.items(path, labelSelector=f"{names.GROUP}/extraction")
    return [each["metadata"]["name"] for each in found]
