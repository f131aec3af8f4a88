"""Names that more than one component writes or reads, and the types of identifiers."""

from typing import Final, NewType

NodeName = NewType("NodeName", str)
GPUUID = NewType("GPUUID", str)
GPUModel = NewType("GPUModel", str)
PodUID = NewType("PodUID", str)
Namespace = NewType("Namespace", str)
GraphDigest = NewType("GraphDigest", str)

GROUP: Final = "cotenant.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GPU_SHARE: Final = f"{GROUP}/gpu-share"
"""The extended resource: hundredths of a GPU."""
HUNDREDTHS: Final = 100
"""How many of them a whole GPU has."""

PACKING_GATE: Final = f"{GROUP}/packing"
SCHEDULER_NAME: Final = "cotenant"
GPU_NODE_LABEL: Final = f"{GROUP}/gpu"
"""`cotenant.dev/gpu=true`: the node is served by a node agent."""
STARTUP_TAINT: Final = f"{GROUP}/agent-not-ready"
STARTUP_TAINTS: Final = (STARTUP_TAINT, "startup-taint.cluster-autoscaler.kubernetes.io/cotenant-agent-not-ready")
"""An agent takes either off its node. cluster-autoscaler knows the second for one that passes by its prefix alone."""

RELEASE_NAMESPACE: Final = "cotenant-system"
SCHEDULER_ACCOUNT: Final = "cotenant-scheduler"
"""kube-scheduler and the extender, its sidecar: a pod has one account."""
SCHEDULER_LEASE: Final = "cotenant-scheduler"
OPERATOR_ACCOUNT: Final = "cotenant-operator"
NODE_AGENT_ACCOUNT: Final = "cotenant-node-agent"
AGENT_LEASE_PREFIX: Final = "node-"
"""The agent of node `n1` renews the Lease `node-n1` in the release namespace."""

PREDICTION: Final = f"{GROUP}/prediction"
PLACEMENT: Final = f"{GROUP}/placement"
EARMARK: Final = f"{GROUP}/earmark"
GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
GPU_MODELS: Final = f"{GROUP}/gpu-models"
WORKLOAD_TYPE: Final = f"{GROUP}/workload-type"
PROCESSES_PER_GPU: Final = f"{GROUP}/processes-per-gpu"
GANG: Final = f"{GROUP}/gang"
QUEUED_SINCE: Final = f"{GROUP}/queued-since"
MINIMUM_RUN_SECONDS: Final = f"{GROUP}/minimum-run-seconds"
SUSPECT_SECONDS: Final = f"{GROUP}/suspect-seconds"
"""Its job may have caused a fault: until it has run for so long, the pod shares no GPU with one of another job that
says so. Written by the operator alone: others keep off a suspect's GPU."""
RESERVED_ANNOTATIONS: Final = (PREDICTION, QUEUED_SINCE, SUSPECT_SECONDS)
"""Who writes these needs the permission to `set` them, as a name of `POD_ANNOTATIONS`; the operator has it."""
POD_ANNOTATIONS: Final = "podannotations"
"""A resource that RBAC knows and nobody serves: `podannotations.cotenant.dev/queued-since`."""

DLJOB_LABEL: Final = f"{GROUP}/dljob"
"""On everything that the operator makes for a DLJob: the DLJob's name."""
DLJOB_UID_LABEL: Final = f"{GROUP}/dljob-uid"
"""On pods: a DLJob made again under the same name does not take over the pods of the old one."""
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
COMPLETION_INDEX_LABEL: Final = f"{GROUP}/completion-index"
"""On the DLJob of a run of a sweep: its index, from 0."""
ASKS_LABEL: Final = f"{GROUP}/asks"
"""On every pod that asks for a share, by admission: `gpu-share`. Policies with a parameter select by it."""

PACKED: Final = f"{GROUP}/Packed"
"""The pod condition that the extender writes."""

MAX_ANNOTATION_BYTES: Final = 8 * 1024
