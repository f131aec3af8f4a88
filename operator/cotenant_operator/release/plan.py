"""What is to be done to nodes, what still waits or runs, and how it is told. Pure: no clock, no I/O."""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import gpunode, names

Json = Mapping[str, Any]

SELECTOR: Final = f"spec.schedulerName={names.SCHEDULER_NAME},spec.nodeName="
"""Fields of the pods that no scheduler will place once ours is gone: those behind our gate, and those before it."""
RUNNING: Final = f"spec.schedulerName={names.SCHEDULER_NAME},status.phase=Running"
"""Fields of the tenants. GPUNodes tell of them, too, and are out of date where an agent has left its node."""
LIST: Final = f"kubectl get pods --all-namespaces --field-selector={SELECTOR}"
DELETE: Final = f"kubectl delete pods --all-namespaces --field-selector={SELECTOR}"
_UNGATED: Final = f'{{"spec":{{"schedulingGates":[{{"$patch":"delete","name":"{names.PACKING_GATE}"}}]}}}}'
UNGATE: Final = (
    f"{LIST} --no-headers | while read -r namespace pod rest; "
    f'do kubectl patch pod --namespace "$namespace" "$pod" --patch \'{_UNGATED}\'; done'
)
MAX_NAMED: Final = 20


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was done and what is left.

    Attributes:
        stopped: whether the operator has ended.
        changed: nodes that lost a label or the startup taint.
        unfinished: node -> why it is not as it was, of those that are not in the time they had.
        running: `namespace/pod on node` of each tenant.
        waiting: `namespace/pod (kind/name)` of each pod that nobody will place.
    """

    stopped: bool
    changed: tuple[str, ...]
    unfinished: Mapping[str, str]
    running: tuple[str, ...]
    waiting: tuple[str, ...]


def unsettled(gpu_node: Json, *, served: Container[str]) -> dict[str, str]:
    """Its node -> which of its GPUs Cotenant still holds although no tenant does, and how; nothing where it holds none.

    Args:
        gpu_node: the GPUNode.
        served: nodes that have an agent. What another's GPUNode says is what its last agent said.
    """
    name, gpus = gpu_node["metadata"]["name"], (gpu_node.get("status") or {}).get("gpus") or ()
    held = [f"MPS of {gpu['uuid']} is {gpu['mps']}" for gpu in gpus if _held(gpu)]
    return {name: ", ".join(held)} if held and name in served else {}


def _held(gpu: Json) -> bool:
    used = gpu.get("mps", gpunode.MPS.NOT_USED) != gpunode.MPS.NOT_USED
    return used and not gpu.get("tenants") and gpu.get("mode") != gpunode.Mode.MIG


def running(pods: Iterable[Json]) -> tuple[str, ...]:
    """Return the tenants that run on, each with its node."""
    return tuple(
        sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on {pod['spec']['nodeName']}" for pod in pods)
    )


def waiting(pods: Iterable[Json]) -> tuple[str, ...]:
    """Return the pods that wait for a share, each with what made it: that would make it again."""
    return tuple(sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}{_maker(pod)}" for pod in pods))


def _maker(pod: Json) -> str:
    labels = pod["metadata"].get("labels") or {}
    if names.DLJOB_LABEL in labels:
        return f" (DLJob/{labels[names.DLJOB_LABEL]})"
    owner = next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    return f" ({owner['kind']}/{owner['name']})" if owner else ""


def change(node: Json, selector: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the merge patch that takes our labels and our startup taint off a Node as it is; None: it carries none.

    Args:
        node: the Node.
        selector: labels by which its GPUs are shared; those that are not of cotenant.dev are somebody else's.
    """
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    ours = [key for key, value in selector.items() if is_ours(key) and labels.get(key) == value]
    taints = (node.get("spec") or {}).get("taints") or ()
    kept = [taint for taint in taints if taint["key"] not in names.STARTUP_TAINTS]
    if not ours and len(kept) == len(taints):
        return None
    # Late, it would take off what an installation after this one has put there; and taints are replaced as a whole.
    version = metadata["resourceVersion"]
    patch: dict[str, Any] = {"metadata": {"resourceVersion": version, "labels": dict.fromkeys(ours)}}
    if len(kept) != len(taints):
        patch["spec"] = {"taints": kept}
    return patch


def is_ours(label: str) -> bool:
    """Return whether a label's key is of cotenant.dev."""
    return label.startswith(f"{names.GROUP}/")


def lines(outcome: Outcome) -> list[str]:
    """Return what an admin reads."""
    return [
        "No new pod gets Cotenant's gate, and no GPU is shared any more.",
        "The operator has ended." if outcome.stopped else "The operator has NOT ended yet: see its log.",
        *_listed("Our label or startup taint was taken off", outcome.changed),
        *_listed(
            "NOT as they were before (docs/runbooks.md, 'A node that was not given back')",
            [f"{node}: {why}" for node, why in sorted(outcome.unfinished.items())],
        ),
        *_listed("These run on until they end, and then their GPUs are given back", outcome.running),
        *_waiting_lines(outcome.waiting),
    ]


def _waiting_lines(pods: Collection[str]) -> list[str]:
    if not pods:
        return ["No pod waits for a share."]
    return [
        *_listed("These wait for a share, and nobody will place them", pods),
        f"  list:    {LIST}",
        f"  delete:  {DELETE}",
        f"  ungate:  {UNGATE}",
        "What made a pod makes it again: delete that instead, or change what it asks for.",
        "Installed again, Cotenant goes on with them.",
    ]


def _listed(title: str, items: Collection[str]) -> list[str]:
    if not items:
        return []
    shown = sorted(items)[:MAX_NAMED]
    more = [f"  and {len(items) - len(shown)} more"] if len(items) > len(shown) else []
    return [f"{title} ({len(items)}):", *(f"  {item}" for item in shown), *more]
