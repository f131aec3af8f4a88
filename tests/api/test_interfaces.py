"""One whole example of every document and object: read, and written as it was."""

import json
from typing import Any

import pytest

from cotenant_api import dljob, documents, errors, gpunode, measurement, placement, pod, prediction
from cotenant_api.names import GPUModel

_ADDED = ("memoryUtilization", "stepJoules")
PREDICTION: dict[str, Any] = {
    "v": 1,
    "graph": "sha256:aa",
    "source": "Model",
    "model": "default-1@sha256:bb",
    "byGPU": {
        "NVIDIA-H200": {
            "utilization": {"q50": 41.0, "upper": 55.0},
            "smActivity": {"q50": 22.0, "upper": 31.0},
            "dramActivity": {"q50": 18.0, "upper": 26.0},
            "memoryMiB": {"q50": 7900, "upper": 9216},
            "memoryUtilization": {"q50": 24.0, "upper": 34.0},
            "stepMilliseconds": 38.2,
            "stepJoules": 9.6,
            "threadPercentage": 45,
            "regime": "Compute",
            "outOfDomain": False,
        }
    },
}
PLACEMENT: dict[str, Any] = {
    "v": 1,
    "podUID": "u1",
    "node": "n1",
    "container": "main",
    "policyGeneration": 7,
    "backend": "MPS",
    "processesPerGPU": 1,
    "gpus": [
        {"uuid": "GPU-1", "share": 57, "activeThreadPercentage": 60, "memoryMiB": 9216, "clientPriority": 0},
    ],
}
MEASUREMENT: dict[str, Any] = {
    "v": 1,
    "id": "run-1",
    "group": "resnet50",
    "graph": "sha256:aa",
    "gpuModel": "NVIDIA-H200",
    "mechanism": "MPS",
    "threadPercentage": 50,
    "clientPriority": 0,
    "memoryLimitMiB": None,
    "coTenants": [{"graph": "sha256:bb", "threadPercentage": 50}],
    "repeat": 0,
    "durationSeconds": 15.0,
    "outcome": "Ok",
    "simulated": False,
    "values": {
        "utilization": 83.1,
        "memoryUtilization": 31.0,
        "smActivity": None,
        "dramActivity": None,
        "memoryPeakMiB": 7900,
        "stepMilliseconds": {"mean": 38.2, "p50": 38.0, "p99": 41.0, "std": 0.6},
        "normalizedSpeed": 0.71,
        "powerWatts": 412.0,
        "turnaroundMilliseconds": None,
        "hostToDeviceMilliseconds": 1.2,
        "longKernelShare": 0.42,
        "largeKernelShare": 0.55,
    },
    "kernels": [
        {
            "name": "gemm",
            "count": 12,
            "microseconds": 410.0,
            "grid": [1, 1, 1],
            "block": [256, 1, 1],
            "registers": 64,
            "sharedBytes": 4096,
        }
    ],
    "reasons": {
        "smActivity": "counter not permitted",
        "dramActivity": "counter not permitted",
        "turnaroundMilliseconds": "trains",
    },
    "environment": {"driver": "580", "cuda": "13.0", "torch": "2.9", "cpu": "x", "commit": "c"},
}


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (prediction.Prediction, PREDICTION),
        (placement.Placement, PLACEMENT),
        (placement.Earmark, {"v": 1, "node": "n1", "gpus": ["GPU-1"]}),
        (pod.Gang, {"v": 1, "name": "g", "size": 4}),
        pytest.param(pod.Gang, {"v": 1, "name": "g", "size": 4, "acrossControllers": True}, id="Gang-across"),
        (measurement.Measurement, MEASUREMENT),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_document_is_written_as_it_was_read(model: type[documents.Document], value: dict[str, Any]) -> None:
    read = model.from_json(json.dumps(value), source="example")
    assert json.loads(read.to_json()) == value


@pytest.mark.parametrize("field", ["utilization", "smActivity", "dramActivity", "memoryUtilization"])
@pytest.mark.parametrize("bound", ["q50", "upper"])
def test_a_prediction_of_more_than_a_whole_gpu_is_refused(field: str, bound: str) -> None:
    row = PREDICTION["byGPU"]["NVIDIA-H200"]
    wrong = PREDICTION | {"byGPU": {"NVIDIA-H200": row | {field: row[field] | {bound: 1.7e308}}}}
    with pytest.raises(errors.InvalidInputError, match=rf"line 1\.byGPU\.NVIDIA-H200\.{field}\.{bound}: .*100"):
        prediction.Prediction.from_object(wrong, source="line 1")


def test_an_unexplained_null_in_a_measurement_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="null without an entry in reasons: smActivity"):
        measurement.Measurement.from_object(
            MEASUREMENT | {"reasons": {"dramActivity": "x", "turnaroundMilliseconds": "x"}}, source="line 1"
        )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_an_impossible_figure_in_a_measurement_is_refused(value: float) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"line 1\.durationSeconds"):
        measurement.Measurement.from_object(MEASUREMENT | {"durationSeconds": value}, source="line 1")


def test_a_gpunodes_status_is_written_as_it_was_read() -> None:
    value = {
        "observedGeneration": 1,
        "agentVersion": "0.1.0",
        "simulated": True,
        "conditions": [{"type": "Ready", "status": "True", "reason": "AgentReady", "message": ""}],
        "refused": [{"podUID": "u2", "reason": "PlacementMissing"}],
        "gpus": [
            {
                "uuid": "GPU-1",
                "index": 0,
                "model": "NVIDIA-H200",
                "memoryMiB": 143771,
                "smCount": 132,
                "computeCapability": "9.0",
                "mode": "Shared",
                "health": "Healthy",
                "mps": "Active",
                "utilizationPercent": 41,
                "memoryUsedMiB": 7900,
                "foreignProcesses": 0,
                "tenants": [{"podUID": "u1", "namespace": "a", "pod": "p", "memoryUsedMiB": 1, "memoryPeakMiB": 2}],
                "ended": [{"podUID": "u0", "memoryPeakMiB": 3, "time": "2026-01-31T12:00:00Z"}],
                "lastFault": {
                    "id": "f1",
                    "time": "2026-01-31T12:00:00Z",
                    "xid": 31,
                    "victimPodUIDs": ["u1"],
                    "suspectPodUIDs": ["u1"],
                },
            }
        ],
    }
    read = documents.validated(gpunode.Status, value, source="GPUNode.status").to_object()
    read["conditions"][0].pop("lastTransitionTime")
    assert read == value


def test_a_dljobs_spec_has_the_defaults_that_its_schema_gives() -> None:
    spec = documents.validated(dljob.Spec, {"template": {"spec": {}}}, source="DLJob.spec")
    assert (spec.workload_type, spec.replicas, spec.gpus_per_replica) == (pod.WorkloadType.TRAINING, 1, 1)
    assert (spec.sharing, spec.suspend, spec.oom_policy.max_resubmissions) == (dljob.Sharing.SHARED, False, 3)


def test_a_prediction_of_an_older_writer_is_read() -> None:
    row = {name: value for name, value in PREDICTION["byGPU"]["NVIDIA-H200"].items() if name not in _ADDED}
    older = PREDICTION | {"byGPU": {"NVIDIA-H200": row}}
    read = prediction.Prediction.from_json(json.dumps(older), source="example")
    assert read.by_gpu[GPUModel("NVIDIA-H200")].memory_utilization is None
