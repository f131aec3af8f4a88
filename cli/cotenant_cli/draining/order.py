"""In which order pods leave a node. Pure.

Pods of their own come first, a gang last and whole: when one member goes all of them start again, so none is evicted
while a budget protects another.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant_api import pod as demands
from cotenant_cli.reading import objects

DAEMON_SET = "DaemonSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Pods that go together; `gang`: its name, where they are one."""

    pods: tuple[objects.Pod, ...]
    gang: str | None = None


def batches(pods: Iterable[objects.Pod]) -> tuple[Batch, ...]:
    """Return the pods that leave, the smallest batch first; a DaemonSet's stay."""
    alone: list[Batch] = []
    gangs: dict[demands.GangKey, list[objects.Pod]] = {}
    for pod in sorted(pods, key=lambda one: (one.namespace, one.name)):
        gang = None if pod.demand is None else pod.demand.gang_key(priority=pod.priority)
        if not leaves(pod):
            continue
        if gang is None:
            alone.append(Batch(pods=(pod,)))
        else:
            gangs.setdefault(gang, []).append(pod)
    together = [Batch(pods=tuple(members), gang=gang.name) for gang, members in sorted(gangs.items())]
    return (*alone, *sorted(together, key=lambda one: len(one.pods)))


def leaves(pod: objects.Pod) -> bool:
    """Return whether draining ends a pod: a DaemonSet would make it again on the same node."""
    return pod.owner != DAEMON_SET


def unowned(pods: Iterable[objects.Pod]) -> tuple[objects.Pod, ...]:
    """Pods that nobody makes again."""
    return tuple(pod for pod in pods if pod.owner is None)
