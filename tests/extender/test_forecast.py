"""Where a job can start soonest, by when tenants are expected to end."""

import random
from typing import Any

import numpy as np
import pytest

from cotenant_api import names
from cotenant_api.names import Namespace, PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import rules
from cotenant_extender.queue import bounds, ends, forecast, order, roster
from extender import builders, queueing
from extender.builders import NOW, T4


def tenant(source: ledger.Ledger, name: str, share: int, gpu: str, left: float | None, **changes: Any) -> None:
    """A bound pod that ends in so many seconds; None: never."""
    node = gpu.split("-")[1]
    if left is None:
        changes["restartPolicy"] = "Always"
    else:
        changes["activeDeadlineSeconds"] = left + 10_000
    raw = builders.bound(name, share, node, gpu, **changes)
    raw["status"]["startTime"] = builders.timestamp(NOW - 10_000)
    builders.put(source, raw)


def field(source: ledger.Ledger, namespace: Namespace) -> forecast.Field:
    """All GPUs, for a job of a namespace."""
    seen, held = source.seen(), roster.Roster()
    while not held.update(source, seen):
        pass
    bound = bounds.of(seen, held.share.shape, namespace)
    return forecast.Field(seen, held, ends.expected(held, source.runs, now=NOW), seen.present, bound)


def soonest(source: ledger.Ledger, *pods: Any) -> tuple[float, list[str]] | None:
    """In how many seconds these pods can start together, and on which GPUs."""
    builders.put(source, *pods)
    requests = [order.request_of(source.pods[PodUID(pod["metadata"]["uid"])]) for pod in pods]
    found = forecast.soonest(field(source, requests[0].demand.namespace), requests, now=NOW)
    return None if found is None else (found.start - NOW, sorted(uuid for held in found.gpus.values() for uuid in held))


def test_one_gpu_is_ready_when_so_many_have_left_that_the_rest_leaves_room() -> None:
    source = builders.cluster(gpus=2)
    for number, (share, left) in enumerate([(30, 500), (30, 100), (30, 900)]):
        tenant(source, f"a{number}", share, "GPU-n0-0", left)
    tenant(source, "b", 60, "GPU-n0-1", 600)
    assert soonest(source, builders.pod("small", 30)) == (0, ["GPU-n0-1"])
    assert soonest(source, builders.pod("middle", 60)) == (500, ["GPU-n0-0"])
    assert soonest(source, builders.pod("whole", 100)) == (600, ["GPU-n0-1"])


def test_beside_who_never_ends_there_is_only_the_rest() -> None:
    source = builders.cluster(gpus=1)
    tenant(source, "service", 30, "GPU-n0-0", None)
    tenant(source, "b", 60, "GPU-n0-0", 200)
    assert soonest(source, builders.pod("fits", 70)) == (200, ["GPU-n0-0"])
    assert soonest(source, builders.pod("whole", 80)) is None


def test_memory_tenants_and_tenancy_count_as_for_the_rules() -> None:
    source = builders.cluster(gpus=2)
    tenant(source, "a", 10, "GPU-n0-0", 700, memory_mib=130_000)
    tenant(source, "b", 10, "GPU-n0-1", 800, namespace="others")
    assert soonest(source, builders.pod("big", 45, annotations={names.GPU_MEMORY: "60Gi"})) == (700, ["GPU-n0-0"])
    assert soonest(source, builders.pod("other", 20, namespace="others")) == (0, ["GPU-n0-1"])


def test_a_gpu_with_as_many_tenants_as_it_may_have_is_ready_when_one_has_left() -> None:
    source = builders.cluster(gpus=1)
    for number in range(3):
        tenant(source, f"t{number}", 10, "GPU-n0-0", 300 + number)
    assert soonest(source, builders.pod("fourth", 10)) == (300, ["GPU-n0-0"])


def test_whole_gpus_of_one_node_are_as_late_as_the_last() -> None:
    source = builders.cluster(nodes=2, gpus=3)
    for node, lefts in {"n0": (100, 900, 950), "n1": (400, 500, 600)}.items():
        for slot, left in enumerate(lefts):
            tenant(source, f"{node}{slot}", 50, f"GPU-{node}-{slot}", left)
    assert soonest(source, builders.pod("two", 200)) == (500, ["GPU-n1-0", "GPU-n1-1"])
    assert soonest(source, builders.pod("three", 300)) == (600, ["GPU-n1-0", "GPU-n1-1", "GPU-n1-2"])
    assert soonest(source, builders.pod("four", 400)) is None


def test_a_gang_is_as_late_as_its_last_pod_and_its_pods_share_gpus() -> None:
    source = builders.cluster(nodes=3, gpus=1)
    for number, left in enumerate([100, 200, 9000]):
        tenant(source, f"t{number}", 90, f"GPU-n{number}-0", left)
    gang = [builders.pod(name, 40, annotations=builders.gang("g", 3)) for name in "abc"]
    assert soonest(source, *gang) == (200, ["GPU-n0-0", "GPU-n1-0"])


def test_a_node_that_lacks_cpu_until_others_leave_is_later() -> None:
    source = builders.cluster(nodes=2, gpus=2)
    resources = {"requests": {"cpu": "63"}, "limits": {names.GPU_SHARE: "50"}}
    tenant(source, "busy", 50, "GPU-n0-0", 800, containers=[{"name": "main", "resources": resources}])
    tenant(source, "t0", 50, "GPU-n0-1", 100)
    tenant(source, "t1", 50, "GPU-n1-0", 400)
    tenant(source, "t2", 50, "GPU-n1-1", 500)
    asks = {"requests": {"cpu": "8"}, "limits": {names.GPU_SHARE: "100"}}
    containers = [{"name": "main", "resources": asks}]
    assert soonest(source, builders.pod("needs-cpu", 100, containers=containers)) == (400, ["GPU-n1-0"])
    tenant(source, "t3", 50, "GPU-n1-0", 7000)
    tenant(source, "t4", 50, "GPU-n1-1", 7000)
    assert soonest(source, builders.pod("needs-it-too", 100, containers=containers)) == (800, ["GPU-n0-0"])


def test_where_no_node_will_ever_have_the_cpu_gpus_are_found_all_the_same() -> None:
    source = builders.cluster(gpus=1)
    tenant(source, "t", 50, "GPU-n0-0", 100)
    hungry = {"requests": {"cpu": "63"}}
    builders.put(source, builders.pod("host", 0, node="n0", containers=[{"name": "main", "resources": hungry}]))
    asks = {"requests": {"cpu": "8"}, "limits": {names.GPU_SHARE: "100"}}
    found = soonest(source, builders.pod("needs-cpu", 100, containers=[{"name": "main", "resources": asks}]))
    assert found == (100, ["GPU-n0-0"])


def test_gpus_that_cannot_serve_are_left_out() -> None:
    source = builders.cluster(gpus=1)
    builders.add_node(source, "n1", gpus=1, model=T4)
    tenant(source, "t0", 50, "GPU-n0-0", 900)
    tenant(source, "t1", 50, "GPU-n1-0", 100)
    assert soonest(source, builders.pod("any", 100)) == (100, ["GPU-n1-0"])
    assert soonest(source, builders.pod("h200", 100, annotations={names.GPU_MODELS: builders.H200})) == (
        900,
        ["GPU-n0-0"],
    )
    assert soonest(source, builders.pod("selects", 100, nodeSelector={"zone": "b"})) is None


@pytest.mark.parametrize("seed", range(4))
def test_looking_at_some_nodes_at_a_time_finds_what_looking_at_all_does(seed: int, monkeypatch: Any) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same cluster each time
    source = builders.cluster(nodes=12, gpus=3)
    for row in range(12):
        for slot in range(3):
            for number in range(chance.randrange(1, 4)):
                left = chance.choice([None, *(chance.randrange(9000) for _ in range(5))])
                tenant(source, f"t{row}{slot}{number}", chance.choice([10, 20, 30]), f"GPU-n{row}-{slot}", left)
    jobs = [[builders.pod(f"one{share}", share)] for share in (40, 80, 100, 200)]
    jobs.append([builders.pod(f"g{number}", 100, annotations=builders.gang("g", 4)) for number in range(4)])
    whole = [soonest(source, *job) for job in jobs]
    monkeypatch.setattr(forecast, "FIRST_ROWS", 1)
    monkeypatch.setattr(forecast, "MORE_ROWS", 2)
    found = [soonest(source, *job) for job in jobs]
    assert [one and one[0] for one in found] == [one and one[0] for one in whole]
    assert any(one is not None and one[0] > 0 for one in found)


def test_the_pods_of_a_gang_that_are_put_on_a_gpu_have_its_memory() -> None:
    source = builders.cluster(gpus=1, maxTenantsPerGPU=6)
    tenant(source, "service", 10, "GPU-n0-0", None, memory_mib=50_000)

    def gang(count: int) -> list[Any]:
        notes = {**builders.gang(f"of-{count}", count), names.GPU_MEMORY: "38Gi"}
        return [builders.pod(f"of-{count}-{number}", 30, annotations=notes) for number in range(count)]

    assert soonest(source, *gang(2)) == (0, ["GPU-n0-0"])
    assert soonest(source, *gang(3)) is None


@pytest.mark.parametrize("tenancy", ["SameNamespace", "Label", "Any"])
@pytest.mark.parametrize("seed", range(12))
def test_pods_that_are_alike_are_put_where_the_rules_would_let_each_in(
    seed: int, tenancy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)  # noqa: S311
    label = {"tenancyLabel": "team"} if tenancy == "Label" else {}
    source = builders.cluster(nodes=3, gpus=3, tenancy=tenancy, maxTenantsPerGPU=chance.choice([3, 6]), **label)
    for cell in range(9):
        namespace, team = chance.choice(["team", "others"]), {"team": chance.choice("ab")}
        for number in range(chance.randrange(3)):
            left = chance.choice([None, chance.randrange(1, 900), chance.randrange(1, 900)])
            gpu, memory = f"GPU-n{cell // 3}-{cell % 3}", chance.choice([1000, 50_000])
            name, share = f"t{cell}{number}", chance.choice([10, 20, 40])
            tenant(source, name, share, gpu, left, namespace=namespace, labels=team, memory_mib=memory)
    sizes = [(10, "13Gi"), (30, "1Gi"), (30, "38Gi"), (50, "64Gi")]
    size = chance.choice(sizes)
    asks = [(*size, "a"), (*chance.choice([size, *sizes]), "b")]
    gang = []
    for number in range(12):
        asked, asked_memory, team_of = asks[chance.randrange(2)]
        notes = {**builders.gang("g", 12), names.GPU_MEMORY: asked_memory}
        gang.append(builders.pod(f"g{number}", asked, annotations=notes, labels={"team": team_of}))
    counted = soonest(source, *gang)
    monkeypatch.setattr(forecast._Steps, "_kind_of", lambda *_: object())
    assert soonest(source, *gang) == counted


@pytest.mark.parametrize("most", [None, 1, 2])
@pytest.mark.parametrize("tenancy", ["SameNamespace", "Any"])
@pytest.mark.parametrize("seed", range(8))
def test_when_those_have_left_who_are_expected_to_by_then_the_rules_take_the_pod_there_and_nowhere_before(
    seed: int, tenancy: str, most: int | None
) -> None:
    chance = random.Random(seed)  # noqa: S311
    source = builders.cluster(nodes=2, gpus=2, tenancy=tenancy, maxGPUsPerNamespace=most)
    left: dict[str, float] = {}
    for cell in range(4):
        together = chance.choice(["team", "others"])
        for number in range(chance.randrange(1, 4)):
            name = f"t{cell}{number}"
            left[name] = chance.randrange(1, 9000)
            namespace = together if tenancy == "SameNamespace" else chance.choice(["team", "others"])
            gpu = f"GPU-n{cell // 2}-{cell % 2}"
            tenant(source, name, chance.choice([10, 20, 30]), gpu, left[name], namespace=namespace)
    wanted = builders.pod("it", chance.choice([80, 90, 100]))
    found = soonest(source, wanted)
    assert found is not None
    request = order.request_of(source.pods[PodUID("uid-it")])
    for name, seconds in sorted(left.items(), key=lambda item: item[1]):
        if seconds > found[0]:
            break
        takes = rules.offers(source.seen(), request, check_host=True).fits
        assert not takes.any(), f"fits before {found}"
        queueing.end(source, name)
    assert np.any(rules.offers(source.seen(), request, check_host=True).fits)


def test_who_may_be_on_no_further_gpu_waits_until_its_namespace_leaves_one() -> None:
    source = builders.cluster(nodes=3, gpus=1, maxGPUsPerNamespace=2)
    tenant(source, "own", 60, "GPU-n0-0", 900)
    tenant(source, "other", 50, "GPU-n1-0", 100, namespace="others")
    tenant(source, "service", 60, "GPU-n2-0", None)
    assert soonest(source, builders.pod("small", 30)) == (0, ["GPU-n0-0"])
    assert soonest(source, builders.pod("big", 80)) == (900, ["GPU-n0-0"])
    gang = [builders.pod(name, 50, annotations=builders.gang("g", 2)) for name in "ab"]
    assert soonest(source, *gang) == (900, ["GPU-n0-0"])


def test_who_may_be_on_no_further_gpu_and_whose_namespace_never_leaves_one_is_never_expected_to_start() -> None:
    source = builders.cluster(nodes=2, gpus=1, maxGPUsPerNamespace=1)
    tenant(source, "service", 60, "GPU-n0-0", None)
    tenant(source, "other", 60, "GPU-n1-0", 100, namespace="others")
    assert soonest(source, builders.pod("big", 80)) is None
