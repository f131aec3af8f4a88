"""Objects as users and agents write them, for tests."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import graph, names, packingpolicy, placement, rootless
from cotenant_api.names import GPUUID, NodeName, PodUID

Json = dict[str, Any]

GPU: Final = GPUUID("GPU-1")
NODE: Final = NodeName("n1")
MODEL: Final = "NVIDIA-H200"
CONTAINER: Final = {"name": "main", "image": "busybox", "securityContext": rootless.PROVEN}
"""The container of a job that may share a GPU."""


def toy_graph(name: str = "toy", *, flops: int = 2**28) -> graph.Graph:
    """A small training step."""
    operator = graph.Operator(
        operator_class=graph.OperatorClass.MATMUL,
        name="aten::mm",
        phase=graph.Phase.FORWARD,
        repeat=50,
        flops=flops,
        bytes_read=2**22,
        bytes_written=2**21,
        output_elements=2**19,
        dtype="bf16",
        dims={"m": 512, "n": 512, "k": 512},
    )
    return graph.Graph(
        name=name,
        mode=graph.Mode.TRAINING,
        batch_size=32,
        precision=graph.Precision.BF16,
        optimizer="adamw",
        parameters=10_000_000,
        parameter_bytes=40_000_000,
        saved_activation_bytes=1_000_000_000,
        operators=(operator,),
        coverage=graph.Coverage(operators=50),
    ).sealed()


def config_map(name: str = "toy", *, data: bytes | None = None, key: str = "graph.json.gz") -> Json:
    """A ConfigMap with a gzipped graph document."""
    content = toy_graph().packed() if data is None else data
    return {"metadata": {"name": name}, "binaryData": {key: base64.b64encode(content).decode()}}


def dljob(name: str = "train", **spec: Any) -> Json:
    """A DLJob that reads its graph from the ConfigMap `toy`, unless `model` says otherwise."""
    content = {
        "workloadType": "Training",
        "replicas": 1,
        "model": {"configMapRef": {"name": "toy", "key": "graph.json.gz"}},
        "template": template(),
        **spec,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in content.items() if value is not None},
    }


def template(**container: Any) -> Json:
    """A pod template of one container that may share a GPU, and may be changed."""
    return {"spec": {"containers": [{**CONTAINER, **container}]}}


def policy(**spec: Any) -> Json:
    """The PackingPolicy."""
    return {"metadata": {"name": packingpolicy.NAME, "namespace": ""}, "spec": spec}


def gpu_node(
    name: str = NODE, *, gpus: Mapping[str, str] | None = None, tenants: tuple[Json, ...] = (), **fields: Any
) -> Json:
    """A GPUNode: UUID -> model of its GPUs, the tenants of the first."""
    models = {str(GPU): MODEL} if gpus is None else dict(gpus)
    listed = [
        {"uuid": uuid, "index": index, "model": model, "memoryMiB": 143771, "health": "Healthy", **fields}
        for index, (uuid, model) in enumerate(models.items())
    ]
    if listed:
        listed[0]["tenants"] = list(tenants)
    return {"metadata": {"name": name, "namespace": ""}, "spec": {}, "status": {"gpus": listed}}


def placed_on(pod: Json, *, gpu: GPUUID = GPU, node: NodeName = NODE, share: int = 21) -> str:
    """The placement annotation of a pod."""
    limits = (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    whole = int(limits.get(names.GPU_SHARE, share)) >= names.HUNDREDTHS
    share, threads = (100, 100) if whole else (share, 25)
    booked = placement.GPUBooking(uuid=gpu, share=share, active_thread_percentage=threads, memory_mib=2085)
    return placement.Placement(
        pod_uid=PodUID(pod["metadata"]["uid"]),
        node=node,
        container="main",
        policy_generation=1,
        backend=placement.Backend.WHOLE if whole else placement.Backend.MPS,
        gpus=(booked,),
    ).to_json()
