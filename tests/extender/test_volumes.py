"""Where a pod's volumes can be used, and that it is placed nowhere else."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from api_server.server import Server
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import feed, reading, records, steps, storage
from cotenant_extender.kube import pods
from cotenant_extender.ledger import ledger
from extender import builders, running, virtual
from extender.builders import NOW
from extender.queueing import evicted, held, lifted, run, told

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
DATA: Object = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
KINDS: dict[type[storage.Stored], Callable[[Object], storage.Stored]] = {
    storage.Claim: reading.claim,
    storage.Volume: reading.volume,
    storage.StorageClass: reading.storage_class,
}


def zoned(**spec: Any) -> ledger.Ledger:
    """Nodes n0 and n1 with a GPU each, in zones a and b."""
    source = builders.cluster(nodes=2, gpus=1, **spec)
    for index, zone in enumerate("ab"):
        source.node(records.node_record(builders.node(f"n{index}", gpus=1, labels={ZONE: zone})))
    return source


def claim(name: str = "data", *, volume: str = "pv", **spec: Any) -> Object:
    notes = spec.pop("annotations", {})
    metadata = {"name": name, "namespace": "team", "annotations": notes}
    return {"metadata": metadata, "spec": {"volumeName": volume} | spec}


def volume(zone: str | None, *, name: str = "pv", of: str = "data") -> Object:
    """A PersistentVolume of a zone; None: it can be used anywhere."""
    spec: Object = {"claimRef": {"namespace": "team", "name": of}}
    if zone is not None:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"metadata": {"name": name}, "spec": spec}


def storage_class(zone: str) -> Object:
    topology = {"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}
    return {"metadata": {"name": "zonal"}, "allowedTopologies": [topology]}


def sink(source: ledger.Ledger, kind: type[storage.Stored]) -> feed.Storage:
    return feed.Storage(source, kind, KINDS[kind], lambda: None)


def put(source: ledger.Ledger, kind: type[storage.Stored], item: Object) -> None:
    sink(source, kind).changed(item)


def node_of(source: ledger.Ledger, name: str) -> str | None:
    earmark = source.earmarks.get(PodUID(f"uid-{name}"))
    return None if earmark is None else earmark.placed.node


EVENTS: dict[str, Callable[[ledger.Ledger], None]] = {
    "pod": lambda source: builders.put(source, builders.pod("a", **DATA)),
    "claim": lambda source: put(source, storage.Claim, claim()),
    "volume": lambda source: put(source, storage.Volume, volume("b")),
}


@pytest.mark.parametrize("order", list(itertools.permutations(EVENTS)))
def test_a_pod_goes_where_its_volume_is_in_whatever_order_that_is_heard(order: tuple[str, ...]) -> None:
    source = zoned()
    for event in order:
        EVENTS[event](source)
    assert (lifted(source), node_of(source, "a")) == (["a"], "n1")


def test_a_job_waits_and_says_so_where_the_nodes_of_its_volume_are_gone() -> None:
    source = zoned()
    put(source, storage.Claim, claim())
    put(source, storage.Volume, volume("c"))
    builders.put(source, builders.pod("a", **DATA))
    message = "2 GPUs are on nodes that cannot use the pod's volumes; 1st in the queue"
    assert told(source, "a") == (PackedReason.INSUFFICIENT_HOST_RESOURCES, message)


def test_victims_leave_where_the_volume_is_and_other_gpus_stay_free_for_others() -> None:
    source = zoned()
    for name in ("low", "high"):
        put(source, storage.Claim, claim(name, volume=f"pv-{name}"))
        put(source, storage.Volume, volume("b", name=f"pv-{name}", of=name))
    raw = builders.bound("low", 100, "n1", "GPU-n1-0")
    raw["status"]["startTime"] = builders.timestamp(NOW - 3600)
    builders.put(source, raw)
    data: Object = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "high"}}]}
    builders.put(source, builders.pod("high", 100, priority=5, **data), builders.pod("other", 100))
    plan = run(source)
    assert [victim.name for eviction in plan.evictions for victim in eviction.victims] == ["low"]
    assert ([lift.record.name for lift in plan.lifts], held(source)) == (["other"], ["GPU-n1-0"])
    assert node_of(source, "other") == "n0"


def test_a_gpu_is_held_for_an_aged_job_where_its_volume_is() -> None:
    source = zoned(queue={"maxWaitSeconds": 60})
    put(source, storage.Claim, claim())
    put(source, storage.Volume, volume("b"))
    builders.put(source, builders.bound("b0", 20, "n0", "GPU-n0-0"), builders.bound("b1", 80, "n1", "GPU-n1-0"))
    builders.put(source, builders.pod("old", 90, created=NOW - 61, **DATA))
    run(source)
    assert held(source) == ["GPU-n1-0"]


@pytest.mark.parametrize(("zone", "shown"), [("b", True), ("c", False)])
def test_an_autoscaler_is_shown_a_job_whose_volume_new_nodes_could_use(zone: str, shown: bool) -> None:
    source = zoned()
    put(source, storage.Claim, claim())
    put(source, storage.Volume, volume(zone))
    builders.put(source, builders.bound("b1", 80, "n1", "GPU-n1-0"))
    builders.put(source, builders.pod("a", 90, created=NOW - 100, **DATA))
    assert [lift.kind for lift in run(source).lifts] == (["scale-up"] if shown else [])


def test_a_claim_that_is_not_bound_goes_where_its_class_may_make_a_volume() -> None:
    source = zoned()
    put(source, storage.StorageClass, storage_class("b"))
    put(source, storage.Claim, claim(volume="", storageClassName="zonal"))
    builders.put(source, builders.pod("a", **DATA))
    assert (lifted(source), node_of(source, "a")) == (["a"], "n1")


def test_a_claim_whose_volume_is_being_made_goes_where_that_is() -> None:
    source = zoned()
    put(source, storage.Claim, claim(volume="", annotations={storage.SELECTED_NODE: "n1"}))
    builders.put(source, builders.pod("a", **DATA))
    assert (lifted(source), node_of(source, "a")) == (["a"], "n1")


def test_the_volume_of_an_ephemeral_claim_counts_too() -> None:
    source = zoned()
    put(source, storage.Claim, claim("a-scratch"))
    put(source, storage.Volume, volume("b", of="a-scratch"))
    builders.put(source, builders.pod("a", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert (lifted(source), node_of(source, "a")) == (["a"], "n1")


def test_a_node_must_be_able_to_use_every_volume() -> None:
    source = zoned()
    for name, zone in (("one", "a"), ("two", "b"), ("anywhere", None)):
        put(source, storage.Claim, claim(name, volume=f"pv-{name}"))
        put(source, storage.Volume, volume(zone, name=f"pv-{name}", of=name))

    def using(*names: str) -> Object:
        return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}

    builders.put(source, builders.pod("both", **using("one", "two")), builders.pod("b", **using("two", "anywhere")))
    assert (lifted(source), node_of(source, "b")) == (["b"], "n1")


@pytest.mark.parametrize("by_list", [True, False])
def test_a_volume_that_is_gone_keeps_a_pod_from_no_node(by_list: bool) -> None:
    source = zoned()
    builders.put(source, builders.pod("a", **DATA), builders.bound("b1", 100, "n1", "GPU-n1-0"))
    put(source, storage.Claim, claim())
    put(source, storage.Volume, volume("b"))
    assert lifted(source) == []
    if by_list:
        steps.finish(sink(source, storage.Volume).take([], 9))
    else:
        sink(source, storage.Volume).gone(volume("b"))
    assert (lifted(source), node_of(source, "a")) == (["a"], "n0")


def test_a_list_that_moves_a_volume_moves_the_pod() -> None:
    source = zoned()
    builders.put(source, builders.pod("a", **DATA), builders.bound("b1", 100, "n1", "GPU-n1-0"))
    put(source, storage.Claim, claim())
    put(source, storage.Volume, volume("b"))
    assert lifted(source) == []
    steps.finish(sink(source, storage.Volume).take([reading.volume(volume("a"))], 9))
    assert lifted(source) == ["a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": 3}]}]}}},
        {"nodeAffinity": {"required": {"nodeSelectorTerms": 7}}},
        {"nodeAffinity": [], "claimRef": "data"},
        {"claimRef": {"namespace": {}, "name": ["x"]}},
    ],
)
def test_a_volume_that_cannot_be_read_can_be_used_anywhere(wrong: Object) -> None:
    source = zoned()
    put(source, storage.Claim, claim())
    put(source, storage.Volume, {"metadata": {"name": "pv"}, "spec": wrong})
    builders.put(source, builders.pod("a", **DATA))
    assert (lifted(source), node_of(source, "a")) == (["a"], "n0")


def test_a_pod_that_waits_no_longer_is_forgotten() -> None:
    source = zoned()
    put(source, storage.Claim, claim())
    builders.put(source, builders.pod("a", **DATA))
    source.pod_gone(PodUID("uid-a"))
    assert source.hosts.volumes.put(reading.volume(volume("b"))) == frozenset()


def test_nobody_leaves_a_node_that_the_volume_cannot_be_used_on() -> None:
    source = zoned()
    for index in (0, 1):
        raw = builders.bound(f"b{index}", 100, f"n{index}", f"GPU-n{index}-0", priority=5 * index)
        raw["status"]["startTime"] = builders.timestamp(NOW - 3600)
        builders.put(source, raw)
    put(source, storage.Claim, claim())
    put(source, storage.Volume, volume("b"))
    builders.put(source, builders.pod("high", 100, priority=5, **DATA))
    assert evicted(source) == []


def stored(to: Server) -> None:
    """Zones and a bound claim of zone b."""
    for index, zone in enumerate("ab"):
        to.put(pods.NODES, builders.node(f"n{index}", gpus=1, labels={ZONE: zone}))
    to.put(pods.CLAIMS, claim())
    to.put(pods.VOLUMES, volume("b"))


@virtual.time
async def test_a_whole_extender_reads_volumes_and_learns_from_questions_to_filter() -> None:
    server = running.server(nodes=2, gpus=1)
    stored(server)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a", **DATA))
        server.put(pods.PODS, builders.pod("b"))
        await running.until(lambda: not server.pod("b")["spec"].get("schedulingGates"), "lifted")
        assert await rig.filtered("a", "n0", "n1") == ["n1"]
        assert await rig.filtered("b", "n1") == ["n1"]
