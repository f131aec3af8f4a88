"""Objects as the API server gives them, for tests of the extender. Small, and complete enough to be read."""

import json
from datetime import UTC, datetime
from typing import Any

from cotenant_api import names, packingpolicy, rootless
from cotenant_api import placement as placements
from cotenant_api.names import NodeName
from cotenant_extender import records
from cotenant_extender.ledger import ledger, views
from cotenant_extender.packing import placing, policies

Object = dict[str, Any]

NOW = 1_800_000_000.0
H200, T4 = "NVIDIA-H200", "Tesla-T4"
MEMORY_MIB = {H200: 143771, T4: 15360}


def timestamp(seconds: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def prediction(**by_model: tuple[float, int, int]) -> str:
    """A prediction: for each of `h200` and `t4` the utilization's upper bound, memory in MiB and thread demand."""
    models = {"h200": H200, "t4": T4}
    return json.dumps(
        {
            "v": 1,
            "graph": "sha256:" + "0" * 64,
            "source": "Formula",
            "model": "formula-1",
            "byGPU": {
                models[key]: {
                    "utilization": {"q50": upper / 2, "upper": upper},
                    "smActivity": {"q50": upper / 4, "upper": upper / 2},
                    "dramActivity": {"q50": 1.0, "upper": 2.0},
                    "memoryMiB": {"q50": memory, "upper": memory},
                    "stepMilliseconds": 10.0,
                    "threadPercentage": threads,
                    "regime": "Compute",
                    "outOfDomain": False,
                }
                for key, (upper, memory, threads) in by_model.items()
            },
        }
    )


def container(resources: Object, **fields: Any) -> Object:
    """The container of a pod; by its spec it cannot be root."""
    return {"name": "main", "resources": resources, "securityContext": rootless.PROVEN, **fields}


def pod(name: str, share: int = 40, **changes: Any) -> Object:
    """A gated pod that asks for a share. Changes: see `_apply`."""
    metadata: Object = {
        "uid": changes.pop("uid", f"uid-{name}"),
        "name": name,
        "namespace": changes.pop("namespace", "team"),
        "resourceVersion": str(changes.pop("version", 1)),
        "creationTimestamp": timestamp(changes.pop("created", NOW)),
        "annotations": changes.pop("annotations", {}),
        "labels": changes.pop("labels", {}),
    }
    controller = changes.pop("controller", None)
    if controller is not None:
        metadata["ownerReferences"] = [{"uid": "uid-other"}, {"uid": controller, "controller": True}]
    resources: Object = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    if share:
        resources["limits"] = {names.GPU_SHARE: str(share)}
    spec: Object = {
        "schedulerName": "cotenant",
        "priority": changes.pop("priority", 0),
        "containers": [container(resources)],
    }
    gates = changes.pop("gates", (names.PACKING_GATE,))
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    found = {"metadata": metadata, "spec": spec, "status": {"phase": changes.pop("phase", "Pending")}}
    return _apply(found, changes)


def _apply(found: Object, changes: Object) -> Object:
    """`node` binds, `deleting`, `unschedulable`, `errored` (messages), `packed` (a reason); the spec gets others."""
    node = changes.pop("node", None)
    if node is not None:
        found["spec"]["nodeName"] = node
        found["spec"].pop("schedulingGates", None)
    if changes.pop("deleting", False):
        found["metadata"]["deletionTimestamp"] = timestamp(NOW)
    reports = []
    unschedulable = changes.pop("unschedulable", None)
    if unschedulable is not None:
        reports.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unschedulable})
    errored = changes.pop("errored", None)
    if errored is not None:
        reports.append({"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": errored})
    packed = changes.pop("packed", None)
    if packed is not None:
        reports.append({"type": names.PACKED, "status": "False", "reason": packed, "message": ""})
    if found["status"]["phase"] == "Running":
        reports.append({"type": "Ready", "status": "True"})
    found["status"]["conditions"] = reports
    if "activeDeadlineSeconds" in changes:
        # It ends at its deadline, unless its grace period is the test's matter.
        changes.setdefault("terminationGracePeriodSeconds", 0)
    found["spec"].update(changes)
    return found


def of_job(raw: Object) -> Object:
    """A pod, as one of a Job."""
    raw["metadata"]["ownerReferences"] = [{"kind": "Job", "controller": True}]
    return raw


def gang(name: str, size: int, *, across: bool = False) -> Object:
    """The annotation that makes pods a gang; `across`: whichever controllers made them."""
    return {names.GANG: json.dumps({"v": 1, "name": name, "size": size, "acrossControllers": across})}


def placement(name: str, node: str, gpus: dict[str, int], *, memory_mib: int = 1000) -> Object:
    """The annotation of a placed pod: hundredths by GPU."""
    document = {
        "v": 1,
        "podUID": f"uid-{name}",
        "node": node,
        "container": "main",
        "policyGeneration": 1,
        "backend": "MPS",
        "processesPerGPU": 1,
        "gpus": [
            {
                "uuid": uuid,
                "share": share,
                "activeThreadPercentage": share,
                "memoryMiB": memory_mib,
                "clientPriority": 0,
            }
            for uuid, share in gpus.items()
        ],
    }
    return {names.PLACEMENT: json.dumps(document)}


def bound(name: str, share: int, node: str, gpu: str, **changes: Any) -> Object:
    """A running pod with its placement."""
    memory = changes.pop("memory_mib", 1000)
    notes = placement(name, node, {gpu: share}, memory_mib=memory) | changes.pop("annotations", {})
    return pod(name, share, node=node, annotations=notes, phase=changes.pop("phase", "Running"), **changes)


def node(name: str, *, gpus: int = 2, **changes: Any) -> Object:
    """A Ready Node that offers what its GPUs have. Changes go into the spec; `labels` and `allocatable` apart."""
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", names.GPU_SHARE: str(100 * gpus)}
    return {
        "metadata": {"name": name, "labels": changes.pop("labels", {})},
        "status": {
            "allocatable": offered | changes.pop("allocatable", {}),
            "conditions": [{"type": "Ready", "status": changes.pop("ready", "True")}],
        },
        "spec": changes,
    }


def gpunode(name: str, *, gpus: int = 2, model: str = H200, **changes: Any) -> Object:
    """A Ready GPUNode. `tenants`: names of pods by GPU index; `gpu`: changes to every GPU."""
    tenants: dict[int, list[str]] = changes.pop("tenants", {})
    listed = [
        {
            "uuid": gpu(name, index),
            "index": index,
            "model": model,
            "memoryMiB": MEMORY_MIB[model],
            "health": "Healthy",
            "tenants": [{"podUID": f"uid-{pod}", "namespace": "team", "pod": pod} for pod in tenants.get(index, [])],
        }
        | changes.get("gpu", {})
        for index in range(gpus)
    ]
    ready = {"type": "Ready", "status": changes.get("ready", "True"), "reason": "AgentReady"}
    return {
        "metadata": {"name": name, "resourceVersion": str(changes.get("version", 1))},
        "spec": changes.get("spec", {}),
        "status": {"conditions": [ready], "gpus": listed},
    }


def gpu(node_name: str, index: int) -> str:
    """The UUID of a GPU."""
    return f"GPU-{node_name}-{index}"


def lease(name: str, holder: str, *, renewed: float = NOW, **changes: Any) -> Object:
    """A Lease."""
    spec = {
        "holderIdentity": holder,
        "renewTime": timestamp(renewed),
        "acquireTime": timestamp(renewed),
        "leaseDurationSeconds": 15,
    }
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec | changes}


def policy(generation: int = 1, **spec: Any) -> Object:
    """The PackingPolicy."""
    return {"metadata": {"name": "default", "generation": generation, "resourceVersion": "1"}, "spec": spec}


def in_force(**spec: Any) -> policies.InForce:
    """A policy in force."""
    return policies.InForce(packingpolicy.PackingPolicy.from_object(policy(**spec)))


def cluster(*, nodes: int = 1, gpus: int = 2, model: str = H200, **spec: Any) -> ledger.Ledger:
    """A ledger with Ready nodes n0, n1, ... and a policy."""
    found = ledger.Ledger()
    found.policy_changed(in_force(**spec))
    for index in range(nodes):
        add_node(found, f"n{index}", gpus=gpus, model=model)
    return found


def add_node(to: ledger.Ledger, name: str, *, gpus: int = 2, model: str = H200) -> None:
    """Another node, with a live agent."""
    to.node(records.node_record(node(name, gpus=gpus)))
    to.lease(NodeName(name), NOW, now=NOW)
    to.gpunode(records.gpunode_record(gpunode(name, gpus=gpus, model=model)), now=NOW)


def put(to: ledger.Ledger, *pods: Object, now: float = NOW) -> None:
    """Pods as they are."""
    for item in pods:
        to.pod(records.pod_record(item), now=now)


def place(source: ledger.Ledger, record: records.Pod) -> placements.Placement:
    """Where packing puts a pod that the ledger knows."""
    assert record.request is not None
    with views.without(source, record.uid) as seen:
        found = placing.place(seen, record.request, source.known)
    assert isinstance(found, placements.Placement), found
    return found
