"""What a ResourceQuota charges for one pod of a template. Pure.

The rules are those of Kubernetes 1.36: `pkg/quota/v1/evaluator/core/pods.go`, `component-helpers/resource/helpers.go`.
What cannot be known from a template (the overhead of a RuntimeClass, a default priority class) is left out: the API
server decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from cotenant_api import errors, quantity
from cotenant_operator.state import defaults

Amounts = dict[str, Decimal]

_REQUESTS: Final = "requests."
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
"""Only of these a quota may also count limits."""
_POD_LEVEL: Final = ("cpu", "memory")
_READ: Final = ("resources", "overhead", "priorityClassName", "activeDeadlineSeconds")
_HUGE_PAGES: Final = "hugepages-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What a Job's pods ask of the quotas of their namespace.

    Attributes:
        pods: how many there are to be.
        amounts: of one pod, by the names that a quota uses: `requests.cpu`, `pods`; above zero.
        priority_class: empty where the template names none.
        terminating: the pods have a deadline of their own.
        best_effort: no container asks for CPU or memory.
        crosses_namespaces: it has an affinity to pods of other namespaces.
        asking: what of the pod's spec this was read from.
    """

    pods: int
    amounts: Mapping[str, Decimal]
    priority_class: str
    terminating: bool
    best_effort: bool
    crosses_namespaces: bool
    asking: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def with_defaults(self, found: defaults.Defaults) -> "Demand":
        """Return what the pods ask for when admission has put defaults into them."""
        if found == defaults.NONE:
            return self
        applied = defaults.applied(self.asking, found)
        return _read(applied, pods=self.pods, crosses_namespaces=self.crosses_namespaces)


def read(template: Mapping[str, Any], *, pods: int) -> Demand:
    """Return what so many pods of a template ask for."""
    spec = template["spec"]
    return _read(_asking(spec), pods=pods, crosses_namespaces=_crosses_namespaces(spec.get("affinity") or {}))


def _asking(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec that is read here; a template may be large, and is not kept."""
    kept = {name: spec[name] for name in _READ if spec.get(name) is not None}
    for kind in ("containers", "initContainers"):
        fields = ("resources", "restartPolicy")
        kept[kind] = [{name: one[name] for name in fields if name in one} for one in spec.get(kind) or ()]
    return kept


def _read(spec: Mapping[str, Any], *, pods: int, crosses_namespaces: bool) -> Demand:
    charged = {"pods": Decimal(1), "count/pods": Decimal(1), **_charged(_requests(spec), _limits(spec))}
    return Demand(
        pods=pods,
        amounts={name: amount for name, amount in charged.items() if amount > 0},
        priority_class=spec.get("priorityClassName") or "",
        terminating=spec.get("activeDeadlineSeconds") is not None,
        best_effort=_best_effort(spec),
        crosses_namespaces=crosses_namespaces,
        asking=spec,
    )


def amounts(values: Mapping[str, Any] | None) -> Amounts:
    """Quantities as numbers; those that cannot be read are left out."""
    found: Amounts = {}
    for name, text in (values or {}).items():
        try:
            found[name] = quantity.parse(text, field=name)
        except errors.InvalidInputError:
            continue
    return found


def _charged(requests: Amounts, limits: Amounts) -> Amounts:
    """By the names that a quota uses."""
    found: Amounts = {}
    for name, amount in requests.items():
        if name in _LIMITED or name.startswith(_HUGE_PAGES):
            found[name] = found[f"{_REQUESTS}{name}"] = amount
        elif "/" in name and "kubernetes.io/" not in name and not name.startswith(_REQUESTS):
            found[f"{_REQUESTS}{name}"] = amount
    found.update({f"limits.{name}": limits[name] for name in _LIMITED if name in limits})
    return found


def _requests(spec: Mapping[str, Any]) -> Amounts:
    total = _of_containers(spec, _asked)
    pod = spec.get("resources") or {}
    asked, limits = amounts(pod.get("requests")), amounts(pod.get("limits"))
    for name in filter(_is_pod_level, {**asked, **limits}):
        if name in asked:
            total[name] = asked[name]
        else:
            # The API server derives it by rules that changed from release to release.
            total.pop(name, None)
    return _sum([total, amounts(spec.get("overhead"))])


def _limits(spec: Mapping[str, Any]) -> Amounts:
    total = _of_containers(spec, lambda container: amounts(_resources(container).get("limits")))
    pod = amounts((spec.get("resources") or {}).get("limits"))
    total.update({name: amount for name, amount in pod.items() if _is_pod_level(name)})
    overhead = amounts(spec.get("overhead"))
    return {name: amount + overhead.get(name, Decimal(0)) if amount else amount for name, amount in total.items()}


def _of_containers(spec: Mapping[str, Any], asked: Any) -> Amounts:
    """Containers and sidecars together, or an init container with the sidecars before it, whichever is more."""
    running = _sum(asked(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        with_sidecars = _sum([asked(container), sidecars])
        if container.get("restartPolicy") == "Always":
            running, sidecars = _sum([running, asked(container)]), with_sidecars
        starting = _larger(starting, with_sidecars)
    return _larger(running, starting)


def _asked(container: Mapping[str, Any]) -> Amounts:
    """Return a container's requests; where it has none, its limit counts."""
    resources = _resources(container)
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _resources(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("resources") or {}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in {**one, **other}}


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith(_HUGE_PAGES)


def _best_effort(spec: Mapping[str, Any]) -> bool:
    """By the whole pod's resources where it has such, else by its containers'."""
    everybody = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asking = [spec] if spec.get("resources") is not None else everybody
    return not any(amount > 0 and name in _POD_LEVEL for part in asking for name, amount in _asked(part).items())


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    terms: list[Mapping[str, Any]] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms += found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        weighted = found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [item.get("podAffinityTerm") or {} for item in weighted]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)
