"""GPUs that are shared by predicted jobs, as packing sees them, for tests of what looks at jobs together."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from cotenant_api import names, packingpolicy, pod, prediction
from cotenant_api.names import GPUUID, GPUModel, Namespace, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.packing import fleet, jobs, knowledge, policies, speeds, view
from cotenant_predictor.colocation.speeds import SpeedModel
from extender import builders

MODEL = GPUModel(builders.H200)
MEMORY_MIB = builders.MEMORY_MIB[builders.H200]
TRAINING, INFERENCE = pod.WorkloadType


def figures(sm: float, dram: float = 0.0, *, threads: int = 100) -> prediction.GPUPrediction:
    """A job by what it needs of the SMs' time and of the memory bandwidth, in percent, and its thread demand.

    It is booked for what it asks, so that GPUs can be filled beyond what they have.
    """
    return prediction.GPUPrediction.model_validate(
        {
            "utilization": {"q50": 1.0, "upper": 1.0},
            "smActivity": {"q50": sm, "upper": sm},
            "dramActivity": {"q50": dram, "upper": dram},
            "memoryMiB": {"q50": 1000, "upper": 1000},
            "stepMilliseconds": 10.0,
            "threadPercentage": threads,
            "regime": "Compute",
        }
    )


def tenant(predicted: prediction.GPUPrediction | None, **changes: Any) -> view.Tenant:
    """A tenant that is booked for 10 hundredths and may use all threads."""
    standing: dict[str, Any] = {
        "uid": PodUID("uid-tenant"),
        "namespace": Namespace("team"),
        "labels": {},
        "workload_type": TRAINING,
        "share": 10,
        "memory_mib": 1000,
        "predicted": predicted,
        "thread_percentage": 100,
    }
    return view.Tenant(**standing | changes)


def busy(sm: float, dram: float = 0.0, **changes: Any) -> view.Tenant:
    """A tenant by what it needs."""
    return tenant(figures(sm, dram), **changes)


def gpu(*tenants: view.Tenant, name: str = "", model: str = MODEL) -> view.GPU:
    """A GPU with these tenants."""
    return view.GPU(
        uuid=GPUUID(f"GPU-{name}"),
        index=0,
        model=GPUModel(model),
        memory_mib=MEMORY_MIB,
        closed=None,
        tenants=tenants,
        share=sum(one.share for one in tenants),
        booked_mib=sum(one.memory_mib for one in tenants),
        hold=None,
    )


def node(name: str, *gpus: view.GPU) -> view.Node:
    """A node with these GPUs and room for all."""
    host = view.Host(
        free_share=100 * len(gpus),
        free_cpu_millis=10**6,
        free_memory_bytes=10**12,
        free_pods=100,
        cpu_millis=10**6,
        memory_bytes=10**12,
        pods=100,
        schedulable=True,
        labels={},
        taints=(),
    )
    named = [dataclasses.replace(one, uuid=GPUUID(f"{name}-{index}"), index=index) for index, one in enumerate(gpus)]
    return view.Node(name=NodeName(name), gpus=tuple(named), closed=None, host=host)


def packed(*gpus: view.GPU, **spec: Any) -> fleet.Fleet:
    """Nodes n000, n001, ... with one of these GPUs each."""
    nodes = [node(f"n{place:03}", one) for place, one in enumerate(gpus)]
    return fleet.Fleet.of(nodes, in_force(**spec))


def in_force(**spec: Any) -> policies.InForce:
    """Placement `Interference`, anyone beside anyone, all threads, as many tenants as come."""
    standing = {"placement": "Interference", "threadPartition": "None", "tenancy": "Any", "maxTenantsPerGPU": 16}
    raw = builders.policy() | {"spec": standing | spec}
    return policies.InForce(packingpolicy.PackingPolicy.from_object(raw))


def request(
    predicted: prediction.GPUPrediction | None, *, share: int = 10, kind: pod.WorkloadType = TRAINING
) -> view.Request:
    """A pod that asks for a share."""
    found = records.pod_record(builders.pod("new", share, annotations={names.WORKLOAD_TYPE: kind})).request
    assert found is not None
    document = None
    if predicted is not None:
        document = prediction.Prediction.model_validate(
            {"graph": "sha256:" + "0" * 64, "source": "User", "model": "x", "byGPU": {MODEL: predicted}}
        )
    return dataclasses.replace(found, demand=dataclasses.replace(found.demand, predicted=document))


def known() -> knowledge.Knowledge:
    """What is known where nothing has been learned: the formula's prior."""
    return knowledge.Knowledge(speeds=speeds.Predicted(SpeedModel()))


def job(predicted: prediction.GPUPrediction | None, threads: int = 100, **changes: Any) -> jobs.Job:
    """A job as the model of speeds sees it."""
    made = jobs.Job(predicted, MEMORY_MIB, threads, 0, TRAINING)
    return made._replace(**changes)


def together(*group: jobs.Job) -> Sequence[float]:
    """The speeds of these jobs on one GPU."""
    return [float(speed) for speed in speeds.Predicted(SpeedModel()).together([group])[0]]
