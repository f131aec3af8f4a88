"""What every admission policy must be, so that none of them ever stops what is not ours."""

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from repository.policies import BINDINGS, POLICIES, documents

LABELLED: Final = {"matchLabels": {"cotenant.dev/asks": "gpu-share"}}
NOT_KUBE_SYSTEM: Final = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
ACCOUNTS: Final = re.compile(
    r"request\.userInfo\.username (?:== |in \[)('system:serviceaccount:cotenant-system:[^]&]*)"
)
"""The beginning of a condition by which some of our accounts alone are held to a policy."""


def is_of_ours(spec: Mapping[str, Any]) -> bool:
    """Whether it looks at our kinds alone."""
    return all(rule["apiGroups"] == ["cotenant.dev"] for rule in spec["matchConstraints"]["resourceRules"])


def accounts(spec: Mapping[str, Any]) -> set[str]:
    """Which of our accounts alone are held to it; empty: it is for everybody."""
    found = (ACCOUNTS.match(condition["expression"]) for condition in spec.get("matchConditions", ()))
    return {name for match in found if match for name in re.findall(r"cotenant-system:([\w-]+)'", match[1])}


def bound_to(binding: Mapping[str, Any]) -> str:
    """Return the policy of a binding, as `POLICIES` names it."""
    return f"{binding['kind'].removesuffix('Binding')}/{binding['spec']['policyName']}"


@pytest.mark.parametrize("spec", POLICIES.values(), ids=list(POLICIES))
def test_a_policy_with_a_parameter_looks_at_nobody_elses_objects(spec: Mapping[str, Any]) -> None:
    if "paramKind" in spec:
        assert spec["failurePolicy"] == "Ignore"
        assert is_of_ours(spec) or spec["matchConstraints"]["objectSelector"] == LABELLED
    else:
        assert spec["failurePolicy"] == "Fail"


@pytest.mark.parametrize(("name", "spec"), POLICIES.items(), ids=list(POLICIES))
def test_a_policy_for_everybody_leaves_kube_system_alone(name: str, spec: Mapping[str, Any]) -> None:
    constraints = spec["matchConstraints"]
    narrow = is_of_ours(spec) or bool(accounts(spec)) or constraints.get("objectSelector") == LABELLED
    resources = [binding["spec"].get("matchResources", {}) for binding in BINDINGS if bound_to(binding) == name]
    selected = [one.get("namespaceSelector", {}).get("matchExpressions", ()) for one in resources]
    assert narrow or all(NOT_KUBE_SYSTEM in expressions for expressions in selected)


@pytest.mark.parametrize("spec", POLICIES.values(), ids=list(POLICIES))
def test_namespaces_are_selected_by_bindings(spec: Mapping[str, Any]) -> None:
    """A policy's own selector is parsed for every write to the API server, before the rules are looked at."""
    assert "namespaceSelector" not in spec["matchConstraints"]


def test_every_policy_is_bound_and_denies() -> None:
    assert {bound_to(one) for one in BINDINGS} == POLICIES.keys()
    assert all(one["spec"].get("validationActions", ["Deny"]) == ["Deny"] for one in BINDINGS)


def written(role: str) -> set[tuple[str, str]]:
    """Group and resource of what a ClusterRole lets write, but for what only says what there is."""
    rules = next(one for one in documents("rbac") if one["kind"] == "ClusterRole" and one["metadata"]["name"] == role)
    return {
        (group, resource)
        for rule in rules["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }


def judged(account: str) -> set[tuple[str, str]]:
    """Group and resource of what policies for one account look at."""
    return {
        (group, resource)
        for spec in POLICIES.values()
        if account in accounts(spec)
        for rule in spec["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize(
    ("role", "account", "unjudged"),
    [
        # The status of the two kinds is its own; the finalizers of a DLJob are no object.
        (
            "cotenant-operator",
            "cotenant-operator",
            {
                ("cotenant.dev", "dljobs/status"),
                ("cotenant.dev", "packingpolicies/status"),
                ("cotenant.dev", "dljobs/finalizers"),
            },
        ),
        ("cotenant-node-agent", "cotenant-node-agent", set()),
        (
            "cotenant-extender",
            "cotenant-scheduler",
            {("cotenant.dev", "packingpolicies/status"), ("cotenant.dev", "schedulinggates")},
        ),
    ],
)
def test_what_an_account_may_write_is_judged(role: str, account: str, unjudged: set[tuple[str, str]]) -> None:
    assert written(role) - judged(account) == unjudged


def test_events_are_judged_as_they_come() -> None:
    """A policy on the one kind of events is not shown the other, converted: kube-scheduler writes many."""
    rules = {name: spec["matchConstraints"] for name, spec in POLICIES.items()}
    of_events = {
        name: constraints.get("matchPolicy")
        for name, constraints in rules.items()
        if any("events" in rule["resources"] for rule in constraints["resourceRules"])
    }
    assert of_events
    assert set(of_events.values()) == {"Exact"}


def test_lists_are_bounded_alike_where_they_are_walked() -> None:
    """What one of the two lets through as short enough, the other does not refuse."""
    security, users = (
        {one["name"]: one["expression"] for one in POLICIES[f"ValidatingAdmissionPolicy/cotenant-{name}"]["variables"]}
        for name in ("pod-security", "tenant-users")
    )
    assert security["lengths"] == users["lengths"]
    assert security["crowded"] == users["crowded"]


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("pods", {"asking", "besides", "gated", "joins"}),
        ("pod-security", {"volumes", "containers", "hostPaths", "contexts", "profiles", "borrowed"}),
        ("tenant-users", {"running"}),
    ],
)
def test_what_is_too_long_is_not_walked(name: str, variables: set[str]) -> None:
    """The API server's time grows with the square of a list that an expression walks."""
    spec = POLICIES[f"ValidatingAdmissionPolicy/cotenant-{name}"]
    found = {one["name"]: one["expression"] for one in spec["variables"]}
    assert variables <= {one for one, text in found.items() if re.search(r"variables\.(crowded|tooMany)\b", text)}
