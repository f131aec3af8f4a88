"""Node selectors, node affinity, taints and tolerations, as kube-scheduler judges them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_api.names import NodeName
from cotenant_extender.packing import constraints, judging, nodeset
from extender import builders

Object = dict[str, Any]

LABELS = {"zone": "a", "gpus": "4"}


def affinity(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def allowed(spec: Object, taints: list[Object] | None = None) -> bool:
    (node,) = builders.cluster(nodes=1).seen().nodes
    host = replace(node.host, labels=LABELS, taints=constraints.taints({"taints": taints or []}))
    judge = judging.Judge([replace(node, name=NodeName("n1"), host=host)])
    return bool(judge.allowed(constraints.of_pod(spec))[0])


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity(expression("zone", "In", "a", "b")), True),
        (affinity(expression("zone", "In", "b")), False),
        (affinity(expression("zone", "NotIn", "b")), True),
        (affinity(expression("absent", "NotIn", "b")), True),
        (affinity(expression("zone", "Exists")), True),
        (affinity(expression("zone", "DoesNotExist")), False),
        (affinity(expression("gpus", "Gt", "3")), True),
        (affinity(expression("gpus", "Gt", "4")), False),
        (affinity(expression("gpus", "Lt", "5")), True),
        (affinity(expression("zone", "Gt", "3")), False),
        (affinity(expression("gpus", "Gt")), False),
        (affinity(expression("zone", "Fuzzy", "a")), False),
        (affinity(expression("zone", "In", "b"), expression("gpus", "Exists")), True),
        (affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), True),
        (affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}), False),
        (affinity({"matchFields": [{"key": "spec.name", "operator": "NotIn", "values": ["n2"]}]}), False),
        (affinity({}), False),
        (affinity(), False),
    ],
)
def test_selectors_and_affinity(spec: Object, fits: bool) -> None:
    assert allowed(spec) is fits


def taint(effect: str = "NoSchedule", value: str = "") -> list[Object]:
    return [{"key": "gpu", "value": value, "effect": effect}]


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        (taint(), [], False),
        (taint("NoExecute"), [], False),
        (taint("PreferNoSchedule"), [], True),
        (taint(), [{"key": "gpu", "operator": "Exists"}], True),
        (taint(), [{"operator": "Exists"}], True),
        (taint(), [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], False),
        (taint(value="x"), [{"key": "gpu", "value": "x"}], True),
        (taint(value="x"), [{"key": "gpu", "operator": "Equal", "value": "y"}], False),
        (taint(value="5"), [{"key": "gpu", "operator": "Gt", "value": "3"}], False),
        ([*taint(), {"key": "other", "effect": "NoSchedule"}], [{"key": "gpu", "operator": "Exists"}], False),
    ],
)
def test_taints_and_tolerations(taints: list[Object], tolerations: list[Object], fits: bool) -> None:
    assert allowed({"tolerations": tolerations}, taints) is fits


@pytest.mark.parametrize(("volumes", "refused"), [(True, False), (False, True), (True, True)])
def test_what_stands_in_the_spec_is_neither_volumes_nor_what_was_refused(volumes: bool, refused: bool) -> None:
    spec = constraints.of_pod({"nodeSelector": {"zone": "a"}})
    found = replace(
        spec,
        volumes=((constraints.Term((), ()),),) if volumes else (),
        refused=nodeset.NodeSet.of({NodeName("n"): 0}, np.array([True])) if refused else None,
    )
    assert found != spec
    assert found.of_spec == spec
    assert spec.of_spec is spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (affinity(expression("zone", "In", *map(str, range(constraints.MAX_PARTS)))), "spec.affinity.nodeAffinity"),
        ({"nodeSelector": {f"k{index}": "v" for index in range(constraints.MAX_PARTS + 1)}}, "spec.nodeSelector"),
        ({"tolerations": [{"key": f"k{index}"} for index in range(constraints.MAX_PARTS + 1)]}, "spec.tolerations"),
    ],
)
def test_constraints_that_cannot_be_judged_in_time_are_refused_by_their_field(spec: Object, field: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"{field}: .*may be {constraints.MAX_PARTS} in all"):
        constraints.of_pod(spec)


@pytest.mark.parametrize(
    ("label", "operator", "value", "matches"),
    [
        ("+7", "Gt", "-5", True),
        ("1_000", "Gt", "500", False),
        ("20", "Gt", "1_0", False),
        (" 7", "Gt", "5", False),
        ("99999999999999999999", "Gt", "1", False),
        ("5", "Lt", "18446744073709551616", False),
        ("9223372036854775807", "Gt", "9223372036854775806", True),
        ("٣", "Gt", "1", False),
    ],
)
def test_numbers_are_those_that_kube_scheduler_reads(label: str, operator: str, value: str, matches: bool) -> None:
    assert constraints.Expression("k", operator, (value,)).matches({"k": label}) is matches
