"""Columns of labels say of all nodes what constraints say of each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis
from hypothesis import strategies

from cotenant_api.names import NodeName
from cotenant_extender.packing import constraints, judging, view
from extender import builders

KEYS = ("zone", "size", "kubernetes.io/hostname", "absent")
VALUES = ("a", "b", "1", "2", "-3", "")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

keys, values = strategies.sampled_from(KEYS), strategies.sampled_from(VALUES)
labels = strategies.dictionaries(strategies.sampled_from(KEYS[:-1]), values, max_size=3)
taints = strategies.lists(
    strategies.builds(constraints.Taint, keys, values, strategies.sampled_from(EFFECTS)), max_size=2
)
expressions = strategies.builds(
    constraints.Expression,
    keys,
    strategies.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")),
    strategies.lists(values, max_size=3).map(tuple),
)
fields = strategies.builds(
    constraints.Expression,
    strategies.sampled_from(("metadata.name", "metadata.uid")),
    strategies.sampled_from(("In", "NotIn", "Exists")),
    strategies.lists(strategies.sampled_from(("n0", "n1", "n7")), max_size=2).map(tuple),
)
terms = strategies.lists(
    strategies.builds(
        constraints.Term,
        strategies.lists(expressions, max_size=2).map(tuple),
        strategies.lists(fields, max_size=1).map(tuple),
    ),
    max_size=3,
).map(tuple)
tolerations = strategies.lists(
    strategies.builds(
        constraints.Toleration,
        strategies.sampled_from(("", *KEYS)),
        strategies.sampled_from(("", "Equal", "Exists")),
        values,
        strategies.sampled_from(("", *EFFECTS)),
    ),
    max_size=2,
).map(tuple)
wanted = strategies.builds(
    constraints.Constraints,
    selector=labels.map(lambda found: tuple(sorted(found.items()))),
    terms=strategies.none() | terms,
    tolerations=tolerations,
    volumes=strategies.lists(terms, max_size=2).map(tuple),
)


hosts = strategies.lists(strategies.tuples(labels, taints), max_size=6)


def nodes(hosts: Sequence[tuple[dict[str, str], list[constraints.Taint]]]) -> list[view.Node]:
    """Nodes with these labels and taints."""
    (one,) = builders.cluster(nodes=1).seen().nodes
    return [
        replace(one, name=NodeName(f"n{number}"), host=replace(one.host, labels=labelled, taints=tuple(tainted)))
        for number, (labelled, tainted) in enumerate(hosts)
    ]


def meets(term: constraints.Term, node: view.Node) -> bool:
    """Whether one node meets a node selector term."""
    named = {"metadata.name": node.name}
    return bool(term.expressions or term.fields) and (
        all(expression.matches(node.host.labels) for expression in term.expressions)
        and all(field.key in named and field.matches(named) for field in term.fields)
    )


def allows(pod: constraints.Constraints, node: view.Node) -> bool:
    """Whether a pod's spec allows one node."""
    if any(node.host.labels.get(key) != value for key, value in pod.selector):
        return False
    if pod.terms is not None and not any(meets(term, node) for term in pod.terms):
        return False
    blocking = (taint for taint in node.host.taints if taint.effect in constraints.BLOCKING_EFFECTS)
    return all(any(toleration.tolerates(taint) for toleration in pod.tolerations) for taint in blocking)


@hypothesis.given(hosts, strategies.lists(wanted, max_size=3))
def test_all_nodes_are_judged_as_each_of_them(
    hosts: list[tuple[dict[str, str], list[constraints.Taint]]], pods: list[constraints.Constraints]
) -> None:
    found = nodes(hosts)
    judge = judging.Judge(found)
    for pod in pods:
        assert judge.allowed(pod).tolist() == [allows(pod, node) for node in found]
        reached = [all(any(meets(term, node) for term in terms) for terms in pod.volumes) for node in found]
        assert judge.reached(pod.volumes).tolist() == reached


def test_other_nodes_are_judged_after_the_verdicts_are_forgotten() -> None:
    found = nodes([({"zone": "a"}, [])])
    judge, pod = judging.Judge(found), constraints.Constraints(selector=(("zone", "b"),))
    assert judge.allowed(pod).tolist() == [False]
    found[:] = nodes([({"zone": "b"}, []), ({"zone": "a"}, [constraints.Taint("t", "", "NoSchedule")])])
    judge.clear()
    assert judge.allowed(pod).tolist() == [True, False]


def test_hundreds_of_expressions_are_judged_without_a_look_at_each_node() -> None:
    looks = 0

    class Labels(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looks
            looks += 1
            return super().get(key, default)

    found = nodes([(Labels(zone=str(number % 7)), []) for number in range(100)])
    terms = [constraints.Term((constraints.Expression(f"k{n}", "Exists", ()),), ()) for n in range(300)]
    terms += [constraints.Term((constraints.Expression("zone", "Gt", (str(n),)),), ()) for n in range(300)]
    assert judging.Judge(found).allowed(constraints.Constraints(terms=tuple(terms))).sum() > 0
    assert looks <= 100
