"""Why a pod ended: tables of last words and statuses, then what agents say of the GPUs."""

from typing import Any

import pytest

from cotenant_operator.life import causes
from cotenant_operator.state import endings, exhaustion
from cotenant_operator.state.carried import Cause
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.store import Store
from operator_kit import objects
from operator_kit.server import START

Json = dict[str, Any]


@pytest.mark.parametrize(
    "text",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 2 GiB",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity)",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.01 GiB",
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "RuntimeError: CUDA driver error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
        "cuda runtime error (2) : out of memory at THCGeneral.cpp:54",
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        "failed to allocate 32.00M (33554432 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: out of memory",
        "std::bad_alloc: out_of_memory: CUDA error at: cuda.hpp: cudaErrorMemoryAllocation out of memory",
        "NCCL WARN Cuda failure 'out of memory'",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 477 bytes.",
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 6.27GiB (6727663616B) on device ordinal 0",
        "Execution of replica 0 failed: Resource exhausted: Out of memory while trying to allocate 5520758552 bytes.",
        "OOM when allocating tensor with shape[1,32] and type float on /job:localhost/replica:0/task:0/device:GPU:0",
        "void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer",
        "CUDA failure 2: out of memory ; GPU=0 ; hostname=h ; expr=cudaMalloc((void**)&p, size);",
        "[E] [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)",
        "[virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 2: OutOfMemory (Requested size was 16581 bytes.)",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,024 bytes (allocated so far: 0 bytes).",
    ],
)
def test_what_libraries_say_when_a_gpu_has_no_memory_left_is_recognised(text: str) -> None:
    line = exhaustion.line(f"Traceback (most recent call last):\n  File x\n{text}\nthe end")
    assert line is not None
    assert "Traceback" not in line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: no data",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "MemoryError: Unable to allocate 12.0 GiB for an array",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory",
        "OOM when allocating tensor with shape[1,512] and type float on /job:localhost/task:0/device:CPU:0 by cpu",
        "[W] [TRT] Requested amount of GPU memory (2359296 bytes) could not be allocated.",
        "grpc: RESOURCE_EXHAUSTED: quota of requests is used up",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_other_last_words_are_not_taken_for_it(text: str) -> None:
    assert exhaustion.line(text) is None


def test_only_the_line_that_says_so_is_kept_and_it_is_bounded() -> None:
    line = exhaustion.line(f"before\nCUDA out of memory {'x' * 4000}\nafter")
    assert line is not None
    assert line.startswith("CUDA out of memory")
    assert len(line) <= exhaustion.MAX_LINE


def failed(*containers: Json, **status: Any) -> Json:
    return {"phase": "Failed", "containerStatuses": list(containers), **status}


def terminated(**ended: Any) -> Json:
    return {"name": "main", "state": {"terminated": ended}}


@pytest.mark.parametrize(
    ("status", "started"),
    [
        (failed(reason="UnexpectedAdmissionError", message="Pod was rejected: x"), False),
        (failed({"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}), False),
        (failed(terminated(exitCode=137, reason="ContainerStatusUnknown")), False),
        (failed(terminated(exitCode=1, reason="Error")), True),
        (failed(terminated(exitCode=128, reason="StartError", startedAt="1970-01-01T00:00:00Z")), True),
        (failed(initContainerStatuses=[terminated(exitCode=1, reason="Error")]), True),
        (failed({"name": "main", "state": {}, "lastState": {"terminated": {"reason": "Error"}}}), True),
    ],
)
def test_whether_anything_of_a_pod_ever_started(status: Json, started: bool) -> None:
    end = endings.of_pod(status)
    assert end is not None
    assert end.started is started


def test_a_pod_that_goes_on_or_succeeded_has_no_end() -> None:
    assert endings.of_pod({"phase": "Running"}) is None
    assert endings.of_pod({"phase": "Succeeded", "containerStatuses": [terminated(exitCode=0)]}) is None


def test_an_error_that_a_program_survived_is_no_cause() -> None:
    words = "CUDA out of memory, trying a smaller batch"
    end = endings.of_pod(failed(terminated(exitCode=0, message=words), terminated(exitCode=3, message="no data")))
    assert end is not None
    assert end.out_of_memory is None


def observed(status: Json, *, gpu: Json | None = None, refused: Json | None = None) -> Observed:
    """A DLJob with one pod on the kit's GPU."""
    time = START.isoformat()
    store = Store()
    meta = {"namespace": "team", "creationTimestamp": time, "resourceVersion": "1"}
    store.put(Kind.DLJOB, {**objects.dljob(), "metadata": {**meta, "name": "train", "uid": "d"}})
    labels = {"cotenant.dev/dljob": "train", "cotenant.dev/dljob-uid": "d", "cotenant.dev/attempt": "1"}
    pod: Json = {"metadata": {**meta, "name": "p", "uid": "p"}, "spec": {"nodeName": "n1", "containers": [{}]}}
    pod["metadata"] |= {"labels": labels, "ownerReferences": [{"uid": "j", "controller": True}]}
    pod["metadata"]["annotations"] = {"cotenant.dev/placement": objects.placed_on(pod)}
    store.put(Kind.POD, {**pod, "status": status})
    node = objects.gpu_node(**(gpu or {}))
    node["status"]["refused"] = [] if refused is None else [refused]
    store.put(Kind.GPU_NODE, {**node, "metadata": {**node["metadata"], "uid": "g", "resourceVersion": "1"}})
    found = store.observe(next(iter(store.keys())), outcome=None)
    assert found is not None
    return found


def cause(seen: Observed) -> tuple[Cause, str]:
    found = causes.of_pod(seen, seen.pods[0])
    assert found is not None
    return found.cause, found.message


CRASHED = failed(terminated(exitCode=1, reason="Error", message="CUDA error: unspecified launch failure\n"))


def fault(**fields: Any) -> Json:
    return {"lastFault": {"id": "f1", "time": "2026-01-01T00:00:00Z", "xid": 31, "victimPodUIDs": ["p"], **fields}}


def test_a_pod_that_failed_with_the_gpu_under_it_is_a_victim() -> None:
    found, words = cause(observed(CRASHED, gpu=fault(culpritPodUID="other")))
    assert found is Cause.VICTIM_OF_FAULT
    assert "another tenant's fault on GPU GPU-1 of node n1 (Xid 31)" in words


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("2026-01-01T00:01:40Z", 100), ("2026-01-01t00:01:40z", 100), ("2026-01-01T00:01:40x1z", 0), ("soon", 0)],
)
def test_a_time_that_cannot_be_read_clears_no_suspect(time: str, seconds: int) -> None:
    seen = observed(CRASHED, gpu=fault(suspectPodUIDs=["p", "other"], time=time))
    found = causes.suspected_of(seen, seen.pods[0])
    assert found is not None
    assert found.seconds == seconds


def test_a_fault_of_the_hardware_makes_victims_too() -> None:
    assert cause(observed(CRASHED, gpu=fault()))[0] is Cause.VICTIM_OF_FAULT


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        ("2025-12-31T23:59:58Z", Cause.VICTIM_OF_FAULT),
        ("2026-01-01T00:09:00Z", Cause.VICTIM_OF_FAULT),
        ("2026-01-01T06:00:00Z", Cause.FAILED),
    ],
)
@pytest.mark.parametrize("named", [{}, {"culpritPodUID": "other"}, {"suspectPodUIDs": ["p", "other"]}])
def test_a_pod_that_runs_on_unharmed_for_long_fails_by_itself(finished: str, expected: Cause, named: Json) -> None:
    status = failed(terminated(exitCode=1, reason="Error", finishedAt=finished))
    assert cause(observed(status, gpu=fault(**named)))[0] is expected


def test_a_victim_that_goes_on_is_left_alone() -> None:
    seen = observed({"phase": "Running"}, gpu=fault(culpritPodUID="other"))
    assert causes.of_pod(seen, seen.pods[0]) is None


def test_a_fault_that_the_job_caused_itself_is_its_own_failure() -> None:
    found, words = cause(observed(CRASHED, gpu=fault(culpritPodUID="p", victimPodUIDs=["p"])))
    assert found is Cause.FAILED
    assert words.endswith("unspecified launch failure; it caused a fault on GPU GPU-1 of node n1 (Xid 31)")


def test_who_is_no_victim_failed_by_itself_and_its_last_words_are_told() -> None:
    found, words = cause(observed(CRASHED, gpu=fault(victimPodUIDs=["other"])))
    assert found is Cause.FAILED
    assert words.endswith("exit code 1: CUDA error: unspecified launch failure")


def test_a_pod_killed_for_host_memory_is_not_taken_for_one_that_wants_more_of_the_gpus() -> None:
    status = failed(terminated(exitCode=137, reason="OOMKilled", message="CUDA out of memory, retrying"))
    assert cause(observed(status))[0] is Cause.HOST_OUT_OF_MEMORY


def test_a_pod_that_kubelet_refused_never_started_and_says_why() -> None:
    status = failed(reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu")
    found, words = cause(observed(status))
    assert found is Cause.NEVER_STARTED
    assert words.endswith(
        "before any container started: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"
    )


def test_why_an_agent_refused_a_pod_is_told() -> None:
    refused = {"podUID": "p", "reason": "UnknownGPU: GPU-9 is not on this node"}
    found, words = cause(observed({"phase": "Failed"}, refused=refused))
    assert found is Cause.NEVER_STARTED
    assert words.endswith("UnknownGPU: GPU-9 is not on this node")


def test_a_pod_with_a_deadline_of_its_own_failed_by_itself() -> None:
    assert cause(observed(failed(reason="DeadlineExceeded")))[0] is Cause.FAILED


def test_a_pod_that_was_taken_away_was_disrupted_whatever_it_said() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    assert cause(observed({**CRASHED, "conditions": [target]}))[0] is Cause.DISRUPTED
