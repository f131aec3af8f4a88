"""The kinds that the operator reads or makes."""

import enum
from typing import Final


class Kind(enum.Enum):
    """Kinds by their names."""

    DLJOB = "DLJob"
    JOB = "Job"
    DEPLOYMENT = "Deployment"
    REPLICA_SET = "ReplicaSet"
    POD = "Pod"
    POLICY = "PackingPolicy"
    GPU_NODE = "GPUNode"
    RESOURCE_QUOTA = "ResourceQuota"
    CONFIG_MAP = "ConfigMap"
    SERVICE = "Service"
    SERVICE_ACCOUNT = "ServiceAccount"
    ROLE = "Role"
    ROLE_BINDING = "RoleBinding"
    LEASE = "Lease"


WATCHED: Final = (
    Kind.DLJOB,
    Kind.JOB,
    Kind.DEPLOYMENT,
    Kind.SERVICE,
    Kind.POD,
    Kind.POLICY,
    Kind.GPU_NODE,
    Kind.RESOURCE_QUOTA,
)
LABELLED: Final = frozenset({Kind.JOB, Kind.DEPLOYMENT, Kind.SERVICE, Kind.POD, Kind.CONFIG_MAP})
"""Of these only what carries the label `cotenant.dev/dljob` is read."""
