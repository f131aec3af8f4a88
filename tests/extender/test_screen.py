"""The screen never says no to what the rules would take, and says no to most of what they would not."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from cotenant_api import names
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.packing import rules, view
from cotenant_extender.queue import order, screen
from extender import builders
from extender.builders import H200, NOW, T4

Object = dict[str, Any]

NODES = {"n0": (2, H200), "n1": (1, T4), "n2": (2, H200)}
PREDICTED = builders.prediction(h200=(35.0, 30_000, 50), t4=(70.0, 9_000, 80))
NOTES: list[Object] = [
    {},
    {names.GPU_MEMORY: "60Gi"},
    {names.PREDICTION: PREDICTED},
    {names.GPU_MODELS: T4},
    {names.GPU_MODELS: "X"},
]

pods = st.tuples(
    st.sampled_from([5, 30, 60, 100, 200]),
    st.sampled_from(["team", "others"]),
    st.sampled_from(NOTES),
    st.sampled_from([{}, {"app": "a"}, {"app": "b"}]),
)
tenants = st.tuples(st.sampled_from(list(NODES)), st.integers(0, 1), st.integers(1, 99), st.sampled_from(["a", "b"]))


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    asked=st.lists(pods, min_size=1, max_size=8),
    placed=st.lists(tenants, max_size=6),
    tenancy=st.sampled_from(["SameNamespace", "Any", "Label"]),
    hold=st.booleans(),
)
def test_whatever_the_rules_take_may_fit(
    asked: list[tuple[int, str, Object, Object]],
    placed: list[tuple[str, int, int, str]],
    tenancy: str,
    hold: bool,
) -> None:
    source = builders.cluster(nodes=0, tenancy=tenancy, tenancyLabel="app", maxTenantsPerGPU=2)
    for name, (gpus, model) in NODES.items():
        builders.add_node(source, name, gpus=gpus, model=model)
    for number, (node, slot, share, app) in enumerate(placed):
        uuid = builders.gpu(node, min(slot, NODES[node][0] - 1))
        builders.put(source, builders.bound(f"b{number}", share, node, uuid, labels={"app": app}))
    made = [
        records.pod_record(builders.pod(f"p{number}", share, namespace=space, annotations=notes, labels=labels))
        for number, (share, space, notes, labels) in enumerate(asked)
    ]
    if hold:
        kept = view.Hold(holders=frozenset({PodUID("uid-p0")}), priority=5, since=NOW)
        source.set_hold(kept, {NodeName("n0"): [GPUUID("GPU-n0-0")]})
    seen = source.seen()
    kinds = screen.Kinds(seen)
    numbers = [kinds.of(record) for record in made]
    found = screen.may_fit(seen, kinds)
    for record, number in zip(made, numbers, strict=True):
        takes = rules.offers(seen, order.request_of(record), check_host=True).fits.any()
        usable = found.values() if record.name == "p0" else [found[0]]
        assert any(may[number] for may in usable) or not takes


def test_pods_that_are_refused_alike_are_one_kind() -> None:
    source = builders.cluster()
    kinds = screen.Kinds(source.seen())
    first, second, larger = (
        records.pod_record(builders.pod(name, share)) for name, share in {"a": 40, "b": 40, "c": 50}.items()
    )
    assert kinds.of(first) == kinds.of(second) != kinds.of(larger)
    assert len(kinds) == 2


def test_what_lacks_share_memory_tenancy_or_a_model_is_left_out() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("runs", 60, "n0", "GPU-n0-0", memory_mib=100_000))
    seen = source.seen()
    kinds = screen.Kinds(seen)
    asked = [
        builders.pod("share", 41),
        builders.pod("memory", 10, annotations={names.GPU_MEMORY: "60Gi"}),
        builders.pod("tenancy", 10, namespace="others"),
        builders.pod("model", 10, annotations={names.GPU_MODELS: T4}),
        builders.pod("fits", 10, annotations={names.GPU_MEMORY: "10Gi"}),
    ]
    numbers = [kinds.of(records.pod_record(raw)) for raw in asked]
    assert screen.may_fit(seen, kinds)[0][numbers].tolist() == [False, False, False, False, True]
