"""What the API server does with pods: bindings, gates, evictions with their budgets, graceful deletion.

As Kubernetes 1.34 to 1.37 do it. A budget's allowance is counted when it is asked for, where the real one is written by
a controller a moment later. An Eviction that a budget allows and a precondition refuses counts against it for a while.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from api_server import answers, store
from cotenant_api import conditions

Object = dict[str, Any]
Clock = Callable[[], float]

PODS = "/api/v1/pods"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
FINISHED = ("Succeeded", "Failed")
GRACE_SECONDS = 30
DISRUPTED_SECONDS = 120
"""How long a budget counts a pod as disrupted whose Eviction was allowed, if it does not go."""


class Pods:
    """Subresources of pods, over a store."""

    def __init__(self, objects: store.Store, clock: Clock) -> None:
        self._store, self._clock = objects, clock
        self._disrupted: dict[str, float] = {}

    def bind(self, key: store.Key, binding: Object) -> None:
        """A Binding: node and annotations, both or neither."""
        pod = self._store.find(PODS, key)
        check_preconditions(pod, binding.get("metadata") or {})
        spec, metadata = pod["spec"], pod["metadata"]
        if "deletionTimestamp" in metadata:
            raise answers.RefusedError(409, f"pod {key[1]} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise answers.RefusedError(409, f'pod {key[1]} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise answers.RefusedError(409, f"pod {key[1]} has non-empty .spec.schedulingGates")
        notes = {**(metadata.get("annotations") or {}), **((binding["metadata"]).get("annotations") or {})}
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._now()}
        self._store.update(
            PODS,
            {
                **pod,
                "metadata": {**metadata, "annotations": notes},
                "spec": {**spec, "nodeName": binding["target"]["name"]},
                "status": with_condition(pod.get("status") or {}, scheduled),
            },
        )

    def evict(self, key: store.Key, eviction: Object) -> None:
        """An Eviction: refused with 429 where a PodDisruptionBudget is against it; a dry run changes nothing."""
        pod = self._store.find(PODS, key)
        options = eviction.get("deleteOptions") or {}
        dry = options.get("dryRun") == ["All"]
        if (pod.get("status") or {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            self._ask_budgets(pod, dry=dry)
        check_preconditions(pod, options.get("preconditions") or {})
        if dry:
            return
        if "deletionTimestamp" not in pod["metadata"]:
            disrupted = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastTransitionTime": self._now(),
            }
            self._store.update(PODS, {**pod, "status": with_condition(pod.get("status") or {}, disrupted)})
        # The resource version that was asked for is no longer the pod's: the condition was written.
        self.delete(key, {**options, "preconditions": {}})

    def delete(self, key: store.Key, options: Mapping[str, Any]) -> None:
        """A deletion: at once where no kubelet has the pod, else when its kubelet says so."""
        pod = self._store.find(PODS, key)
        check_preconditions(pod, options.get("preconditions") or {})
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        seconds = options.get("gracePeriodSeconds", pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS))
        if not pod["spec"].get("nodeName") or phase in FINISHED:
            seconds = 0
        if seconds == 0 and not metadata.get("finalizers"):
            self._store.delete(PODS, key)
            return
        if "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds", 0) <= seconds:
            return
        marked = {
            **metadata,
            "deletionTimestamp": timestamp(self._clock() + seconds),
            "deletionGracePeriodSeconds": seconds,
        }
        self._store.update(PODS, {**pod, "metadata": marked})

    def update(self, old: Object, new: Object) -> Object:
        """The pod itself: gates may go, nothing else of the spec changes; the status stays."""
        if _without_gates(old["spec"]) != _without_gates(new["spec"]):
            raise answers.RefusedError(422, "spec: Forbidden: pod updates may not change fields other than gates")
        if not _gates(new) <= _gates(old):
            raise answers.RefusedError(422, "spec.schedulingGates: Forbidden: only deletion is allowed")
        metadata = new["metadata"]
        done = metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers")
        stored = self._store.update(PODS, {**new, "status": old.get("status") or {}})
        if done:
            self._store.delete(PODS, store.key_of(stored))
        return stored

    def _ask_budgets(self, pod: Object, *, dry: bool) -> None:
        namespace, labels = pod["metadata"].get("namespace", ""), pod["metadata"].get("labels") or {}
        budgets = [
            budget
            for (where, _), budget in self._store.objects[BUDGETS].items()
            if where == namespace and _selects(budget, labels)
        ]
        if len(budgets) > 1:
            raise answers.RefusedError(500, "This pod has more than one PodDisruptionBudget")
        for budget in budgets:
            if self.allowed(budget) < 1:
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {store.key_of(budget)[1]}"}
                raise answers.RefusedError(429, message, causes=(cause,))
            if not dry:
                self._disrupted[pod["metadata"]["uid"]] = self._clock() + DISRUPTED_SECONDS

    def shown(self, budget: Object) -> Object:
        """A PodDisruptionBudget with the status that its controller writes."""
        return {**budget, "status": self._counted(budget)}

    def allowed(self, budget: Object) -> int:
        """How many disruptions a PodDisruptionBudget allows now."""
        return int(self._counted(budget)["disruptionsAllowed"])

    def _counted(self, budget: Object) -> Object:
        namespace = budget["metadata"].get("namespace", "")
        pods = [
            pod
            for (where, _), pod in self._store.objects[PODS].items()
            if where == namespace
            and _selects(budget, pod["metadata"].get("labels") or {})
            and (pod.get("status") or {}).get("phase") not in FINISHED
        ]
        healthy = sum(
            1
            for pod in pods
            if (pod.get("status") or {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and self._disrupted.get(pod["metadata"]["uid"], 0.0) <= self._clock()
        )
        spec = budget["spec"]
        needed = spec["minAvailable"] if "minAvailable" in spec else len(pods) - spec["maxUnavailable"]
        return {
            "expectedPods": len(pods),
            "currentHealthy": healthy,
            "desiredHealthy": max(int(needed), 0),
            "disruptionsAllowed": max(healthy - int(needed), 0),
        }

    def _now(self) -> str:
        return timestamp(self._clock())


def with_condition(status: Mapping[str, Any], new: Object) -> Object:
    """A status with a condition; its transition time stays where its status does."""
    standing = {item["type"]: item for item in status.get("conditions") or ()}
    old = standing.get(new["type"])
    if old is not None and old["status"] == new["status"] and "lastTransitionTime" in old:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return {**status, "conditions": list({**standing, new["type"]: new}.values())}


def check_preconditions(value: Object, wanted: Mapping[str, Any]) -> None:
    """UID and resource version, where they are given; refuses with 409."""
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked, has = wanted.get(field), value["metadata"].get(field)
        if asked and asked != has:
            raise answers.RefusedError(409, f"Precondition failed: {name} in precondition: {asked}, in object: {has}")


def timestamp(seconds: float) -> str:
    """metav1.Time."""
    return conditions.timestamp(datetime.fromtimestamp(seconds, UTC))


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _gates(pod: Object) -> set[str]:
    return {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()}


def _without_gates(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key != "schedulingGates"}
