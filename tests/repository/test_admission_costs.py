"""How many of our policies a request meets: each costs the API server CPU time, whoever sends the request.

For a policy whose rules and selectors match, the API server converts the object, as it was and as it shall be, once for
the match conditions, and three times more where these hold: for the validations, their messages and the audit
annotations, whether there are any or not (k8s.io/apiserver, pkg/admission/plugin/cel, `newActivation`). Rules and
selectors are looked at before, for little. So the numbers below only grow with a reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from repository.policies import BINDINGS, POLICIES

OURS: Final = {"cotenant.dev/asks": "gpu-share"}
NAMESPACE: Final = {"kubernetes.io/metadata.name": "team"}
VALIDATING: Final = "ValidatingAdmissionPolicy"
MUTATING: Final = "MutatingAdmissionPolicy"


@dataclass(frozen=True)
class Request:
    """What the API server knows of a request before it converts anything."""

    operation: str
    resource: str
    group: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: Mapping[str, str] | None = field(default_factory=lambda: NAMESPACE)
    """Labels of the namespace; None: the object is in none."""
    name: str = "any"

    def is_in(self, rules: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether one of the rules names its group, resource and operation."""
        return any(
            self.group in rule["apiGroups"]
            and self.resource in rule["resources"]
            and {self.operation, "*"} & set(rule["operations"])
            and self.name in rule.get("resourceNames", (self.name,))
            for rule in rules
        )

    def is_matched_by(self, constraints: Mapping[str, Any]) -> bool:
        """Return whether `matchConstraints` of a policy, or `matchResources` of a binding, select it."""
        rules = constraints.get("resourceRules", ())
        return (
            (not rules or self.is_in(rules))
            and not self.is_in(constraints.get("excludeResourceRules", ()))
            and selects(constraints.get("objectSelector", {}), self.labels)
            and (self.namespace is None or selects(constraints.get("namespaceSelector", {}), self.namespace))
        )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector of our policies selects these labels."""
    expressions = selector.get("matchExpressions", ())
    assert {one["operator"] for one in expressions} <= {"In", "NotIn"}
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        (labels.get(one["key"]) in one["values"]) is (one["operator"] == "In") for one in expressions
    )


def met(request: Request, kind: str) -> Iterator[str]:
    """Yield the name of a policy of this kind for each of its bindings that the request meets."""
    for binding in BINDINGS:
        name = binding["spec"]["policyName"]
        if binding["kind"] == f"{kind}Binding" and all(
            request.is_matched_by(constraints)
            for constraints in (
                POLICIES[f"{kind}/{name}"]["matchConstraints"],
                binding["spec"].get("matchResources", {}),
            )
        ):
            yield name


PODS: Final = "cotenant-pods"
SECURITY: Final = "cotenant-pod-security"
KUBE_SYSTEM: Final = {"kubernetes.io/metadata.name": "kube-system"}
MET: Final = {
    # One policy looks at everybody's pods; what else there is for pods with a share goes by their label.
    "a new pod": (Request("CREATE", "pods"), {PODS}),
    "a new pod with a share": (
        Request("CREATE", "pods", labels=OURS),
        {PODS, SECURITY, "cotenant-limits", "cotenant-observe", "cotenant-tenant-users"},
    ),
    # The API server cannot be told whose requests a policy is for before it has converted the pod: so the same policy
    # holds the scheduler's account to what is its own.
    "a change of a pod, a lifted gate": (Request("UPDATE", "pods", labels=OURS), {PODS}),
    "a status, most of them by kubelet": (Request("UPDATE", "pods/status", labels=OURS), {PODS}),
    "a deleted pod": (Request("DELETE", "pods", labels=OURS), {"cotenant-scheduler-deletes"}),
    "a Binding": (Request("CREATE", "pods/binding"), {"cotenant-bindings"}),
    "an eviction": (Request("CREATE", "pods/eviction"), {"cotenant-bindings"}),
    "an ephemeral container": (Request("UPDATE", "pods/ephemeralcontainers"), {PODS, SECURITY}),
    "a status of a node": (Request("UPDATE", "nodes/status", namespace=None), set()),
    "a change of a node": (
        Request("UPDATE", "nodes", namespace=None),
        {"cotenant-node-agent-writes", "cotenant-uninstall-writes"},
    ),
    "a Lease, every node's each ten seconds": (
        Request("UPDATE", "leases", "coordination.k8s.io"),
        {"cotenant-node-agent-writes", "cotenant-scheduler-objects"},
    ),
    "a Lease of a leader": (
        Request("UPDATE", "leases", "coordination.k8s.io", name="cotenant-operator"),
        {"cotenant-leader-leases", "cotenant-node-agent-writes", "cotenant-scheduler-objects"},
    ),
    "an event": (Request("CREATE", "events"), {"cotenant-events"}),
    "an event of kube-scheduler": (Request("CREATE", "events", "events.k8s.io"), {"cotenant-events"}),
    "a status of a Job": (Request("UPDATE", "jobs/status", "batch"), {"cotenant-attempts"}),
    "a new pod of kube-system": (Request("CREATE", "pods", namespace=KUBE_SYSTEM), set()),
    "a status in kube-system": (
        Request("UPDATE", "pods/status", namespace=KUBE_SYSTEM),
        {"cotenant-scheduler-writes"},
    ),
}


@pytest.mark.parametrize(("request_", "policies"), MET.values(), ids=list(MET))
def test_a_request_meets_these_policies_and_each_once(request_: Request, policies: set[str]) -> None:
    assert sorted(met(request_, VALIDATING)) == sorted(policies)


@pytest.mark.parametrize(("request_", "_policies"), MET.values(), ids=list(MET))
def test_only_new_pods_meet_a_policy_that_changes_them(request_: Request, _policies: set[str]) -> None:
    is_new_pod = request_.operation == "CREATE" and request_.resource == "pods"
    assert list(met(request_, MUTATING)) == ([PODS] if is_new_pod and request_.namespace != KUBE_SYSTEM else [])


@pytest.mark.parametrize(
    "name",
    ["cotenant-bindings", "cotenant-events", "cotenant-scheduler-writes", "cotenant-scheduler-deletes"],
)
def test_where_the_condition_is_the_rule_what_it_matches_is_refused(name: str) -> None:
    assert POLICIES[f"{VALIDATING}/{name}"]["validations"][-1]["expression"] == "false"


def test_what_the_scheduler_writes_is_refused_where_the_conditions_hold() -> None:
    """They let by what the scheduler's account may write, so whatever of it is left is refused."""
    spec = POLICIES[f"{VALIDATING}/{PODS}"]
    (by_the_scheduler,) = (one["expression"] for one in spec["variables"] if one["name"] == "byTheScheduler")
    own, others = (one["expression"] for one in spec["matchConditions"])
    assert own.startswith(f"!({by_the_scheduler}) || !(")
    assert others.startswith(f"({by_the_scheduler}) || ")
    assert "!variables.byTheScheduler" in [one["expression"] for one in spec["validations"]]
