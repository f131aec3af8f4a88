"""A real PyTorch job runs to its end on a share, and the node tells what it had."""

from pathlib import Path

from cotenant_api import names
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from node import host_python
from node import tenants as kit
from node.tenants import Tenants

JOB = Path(__file__).with_name("training_job.py")
SECONDS = 180
LIMITS = (kit.THREADS, kit.MEMORY, kit.PIPE)
MEMORY_MIB = 512


def listed(tenants: Tenants, pod: Json, of: str) -> Json:
    """What the GPUNode says of a pod among its `tenants` or those that `ended`; empty: nothing."""
    entries = [each for gpu in tenants.gpus.status()["gpus"] for each in gpu.get(of) or ()]
    return next((each for each in entries if each["podUID"] == pod["metadata"]["uid"]), {})


def test_a_pytorch_job_trains_within_its_share_and_leaves_its_peak(tenants: Tenants, tmp_path: Path) -> None:
    finish = tmp_path / "finish"
    tmp_path.chmod(0o755)
    volumes, mounts = host_python.volumes(JOB.parent, tmp_path)
    script = f"exec {host_python.python()} {JOB} {','.join(LIMITS)} {MEMORY_MIB} {finish}"
    tenants.create("train", 30, script=script, annotations={names.GPU_MEMORY: "3Gi"}, volumes=volumes, mounts=mounts)
    pod = tenants.wait("train", "holding its GPU", tenants.shown, seconds=SECONDS)
    booked, shown = kit.placement_of(pod), tenants.shown(pod)
    assert booked
    assert shown
    assert kit.matches(shown, booked)
    told = dict(line.removeprefix("limit ").split("=", 1) for line in tenants.lines(pod) if line.startswith("limit "))
    assert told == {name: kit.expected(booked)[name] for name in LIMITS}
    what = "the job's memory in the GPUNode"
    waiting.wait_until(lambda: listed(tenants, pod, "tenants").get("memoryUsedMiB") == MEMORY_MIB, what, kit.SECONDS)
    assert listed(tenants, pod, "tenants")["memoryLimitMiB"] == 3 * 1024
    finish.touch()
    tenants.succeeded("train")
    assert any(line.startswith("trained torch=") for line in tenants.lines(pod))
    waiting.wait_until(lambda: listed(tenants, pod, "ended"), "the end of the job in the GPUNode", kit.SECONDS)
    assert listed(tenants, pod, "ended")["memoryPeakMiB"] == MEMORY_MIB
    assert not listed(tenants, pod, "tenants")
