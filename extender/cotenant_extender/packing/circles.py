"""Who shares GPUs with whom: the circles of `tenancy`. Pure."""

from collections.abc import Hashable, Mapping

from cotenant_api import packingpolicy
from cotenant_api.names import GPUModel, Namespace
from cotenant_extender.packing import policies


def of(policy: policies.InForce, model: GPUModel, namespace: Namespace, labels: Mapping[str, str]) -> Hashable | None:
    """Whom a pod shares a GPU of this model with: pods of the same circle; None: with anyone.

    `SameNamespace`: one namespace. `Label`: equal values of the pod label `tenancyLabel`; pods without it share with
    pods without it in their namespace.
    """
    match policy.packing(model).tenancy:
        case packingpolicy.Tenancy.ANY:
            return None
        case packingpolicy.Tenancy.SAME_NAMESPACE:
            return by_namespace(namespace)
        case packingpolicy.Tenancy.LABEL:
            return by_label(namespace, labels, policy.spec.tenancy_label)


def by_namespace(namespace: Namespace) -> Hashable:
    """Those of one namespace."""
    return "namespace", namespace


def by_label(namespace: Namespace, labels: Mapping[str, str], label: str | None) -> Hashable:
    """Those with one value of a label; without it, those of one namespace that lack it, too."""
    if label is None:
        return by_namespace(namespace)
    value = labels.get(label)
    return ("unlabelled", namespace) if value is None else ("label", value)
