"""What `cotenant node` shows: how a node stands, and what draining it would do to the pods with GPUs. Pure."""

import enum
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from pydantic import Field

from cotenant_api import conditions, documents, errors, gpunode
from cotenant_api.names import GPUUID
from cotenant_cli.reading import cluster, objects
from cotenant_cli.views import usage

SUBJECT: Final = "NODE"


class Fault(documents.Model):
    """The last fatal fault of a GPU, with the pods by their UIDs."""

    index: int
    uuid: str
    time: str
    xid: int | None
    culprit_pod_uid: str | None = Field(alias="culpritPodUID")
    victim_pod_uids: tuple[str, ...] = Field(alias="victimPodUIDs")


class Node(documents.Document):
    """Version 1 of what `cotenant node show -o json` prints; versions are null where no agent tells them.

    Attributes:
        ready, reason, message: what its agent says of itself.
        shares, booked_shares: hundredths of a GPU that the Node offers, and that its pods have.
    """

    taken: str
    name: str
    ready: bool
    reason: str
    message: str
    cordoned: bool
    taints: tuple[str, ...]
    shares: int
    booked_shares: int
    agent_version: str | None
    driver_version: str | None
    cuda_version: str | None
    container_runtime: str | None
    gpus: tuple[usage.GPU, ...]
    refused: tuple[gpunode.Refused, ...]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


class After(enum.StrEnum):
    """What becomes of an evicted pod."""

    QUEUED_AGAIN = "QueuedAgain"
    """Its controller makes it again, and it waits in the queue."""
    GANG_STARTS_AGAIN = "GangStartsAgain"
    """Its gang starts together or not at all: the pods of it on other nodes end, too."""
    GONE = "Gone"
    """Nobody makes it again."""
    STAYS = "Stays"
    """It is of a DaemonSet: draining leaves it there."""


class Leaving(documents.Model):
    """A pod that would have to go; its GPUs by their indexes where its agent tells of them."""

    namespace: str
    pod: str
    dljob: str | None
    gpus: tuple[int, ...]
    share: int
    after: After


class Drain(documents.Document):
    """Version 1 of what `cotenant node drain -o json` prints; `commands` do it, in order."""

    taken: str
    name: str
    pods: tuple[Leaving, ...]
    commands: tuple[str, ...]
    notes: tuple[str, ...]


def shown(seen: cluster.Seen, *, name: str, now: datetime) -> Node:
    """Return how a node stands.

    Raises:
        InvalidInputError: there is none of that name.
    """
    agent = _agent(seen, name)
    host = seen.host or objects.Host(name=name, cordoned=False, shares=0, taints=())
    silent = conditions.Condition(
        type=gpunode.READY, status=conditions.Status.FALSE, reason="NoAgent", message="no node agent tells of it"
    )
    ready = (agent.ready if agent is not None else None) or silent
    status = agent.status if agent is not None else gpunode.Status()
    found = usage.usage(seen, namespace=None, now=now)
    return Node(
        taken=found.taken,
        name=name,
        ready=ready.status is conditions.Status.TRUE,
        reason=ready.reason,
        message=ready.message,
        cordoned=host.cordoned,
        taints=host.taints,
        shares=host.shares,
        booked_shares=sum(gpu.booked_share for gpu in found.gpus),
        agent_version=status.agent_version,
        driver_version=status.driver_version,
        cuda_version=status.cuda_version,
        container_runtime=status.container_runtime,
        gpus=found.gpus,
        refused=status.refused,
        faults=tuple(_faults(status)),
        notes=found.notes,
    )


def drain(seen: cluster.Seen, *, name: str, now: datetime) -> Drain:
    """Return what draining a node would do to its pods with GPUs. Evicts nothing.

    Raises:
        InvalidInputError: there is none of that name.
    """
    agent = _agent(seen, name)
    indexes = {} if agent is None else {gpu.uuid: gpu.index for gpu in agent.status.gpus}
    leaving = tuple(_leaving(pod, indexes) for pod in seen.pods)
    node = shlex.quote(name)
    force = " --force" if any(one.after is After.GONE for one in leaving) else ""
    return Drain(
        taken=conditions.timestamp(now),
        name=name,
        pods=leaving,
        commands=(
            f"kubectl cordon {node}",
            f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data{force}",
            f"kubectl uncordon {node}",
        ),
        notes=tuple(_drain_notes(leaving)),
    )


def require(seen: cluster.Seen, name: str) -> None:
    """Nothing, if there is a node of that name.

    Raises:
        NotFoundError: there is none.
    """
    if seen.host is None and not seen.nodes:
        remedy = "there is no such node: kubectl get nodes,gpunodes lists what is there"
        raise errors.NotFoundError(SUBJECT, name, remedy)


def _agent(seen: cluster.Seen, name: str) -> objects.Node | None:
    require(seen, name)
    return seen.nodes[0] if seen.nodes else None


def _faults(status: gpunode.Status) -> Iterator[Fault]:
    for gpu in status.gpus:
        fault = gpu.last_fault
        if fault is not None:
            yield Fault(
                index=gpu.index,
                uuid=gpu.uuid,
                time=fault.time,
                xid=fault.xid,
                culprit_pod_uid=fault.culprit_pod_uid,
                victim_pod_uids=fault.victim_pod_uids,
            )


def _leaving(pod: objects.Pod, indexes: Mapping[GPUUID, int]) -> Leaving:
    booked = usage.bookings(pod)
    return Leaving(
        namespace=pod.namespace,
        pod=pod.name,
        dljob=pod.dljob,
        gpus=tuple(sorted(indexes[one.uuid] for one in booked if one.uuid in indexes)),
        share=sum(one.share for one in booked),
        after=_after(pod),
    )


def _after(pod: objects.Pod) -> After:
    if pod.owner is None:
        return After.GONE
    if pod.owner == "DaemonSet":
        return After.STAYS
    gang = pod.demand is not None and pod.demand.gang is not None
    return After.GANG_STARTS_AGAIN if gang else After.QUEUED_AGAIN


def _drain_notes(leaving: tuple[Leaving, ...]) -> Iterator[str]:
    yield "PodDisruptionBudgets are not read: kubectl drain waits for them"
    yield "pods without a GPU share are not listed, and kubectl drain evicts them, too"
    yield "before the driver is unloaded, delete the pods of cotenant-node-agent and cotenant-mps on the node, too"
    if any(one.after is After.GONE for one in leaving):
        yield "nobody makes the pods again that are Gone: --force is there for them"
