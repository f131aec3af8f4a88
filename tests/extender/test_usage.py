"""What is counted of the cluster's use: by namespace over time, and of GPUs now."""

import pytest

from cotenant_api.names import GPUModel, Namespace, NodeName, PodUID
from cotenant_extender import metrics, records
from cotenant_extender.ledger import ledger, usage
from cotenant_extender.packing import occupancy
from extender import builders
from extender.builders import NOW
from extender.queueing import end


def busy() -> ledger.Ledger:
    """Two bound pods on n0, and one that has an earmark alone."""
    source = builders.cluster(nodes=2)
    source.usage.start(now=NOW)
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.bound("b", 100, "n0", "GPU-n0-1"))
    builders.put(source, builders.pod("c", 50, namespace="others"))
    waiting = source.pods[PodUID("uid-c")]
    source.earmark(waiting.uid, builders.place(source, waiting), now=NOW)
    return source


def test_only_bound_pods_use_gpus_and_memory() -> None:
    source = busy()
    source.usage.advance(now=NOW + 10)
    account = source.usage.accounts[Namespace("team")]
    assert account.gpu_seconds == pytest.approx(14.0)
    assert account.byte_seconds == 10 * 2000 * 1024 * 1024
    assert Namespace("others") not in source.usage.accounts


def test_what_has_ended_uses_nothing_more() -> None:
    source = busy()
    source.usage.advance(now=NOW + 10)
    builders.put(source, builders.bound("b", 100, "n0", "GPU-n0-1", phase="Succeeded", version=2))
    source.usage.advance(now=NOW + 20)
    assert source.usage.accounts[Namespace("team")].gpu_seconds == pytest.approx(18.0)


def test_a_clock_that_goes_back_adds_nothing_and_takes_nothing() -> None:
    source = busy()
    source.usage.advance(now=NOW + 10)
    source.usage.advance(now=NOW + 5)
    assert source.usage.accounts[Namespace("team")].gpu_seconds == pytest.approx(14.0)


def test_gpus_are_in_use_free_or_closed() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.lease_gone(source.order[1], now=NOW)
    assert occupancy.occupancy(source.seen()) == occupancy.Occupancy(in_use=1, free=1, closed=2, booked=40)


def test_gpus_of_a_node_that_is_gone_are_closed() -> None:
    source = builders.cluster(nodes=2)
    source.node_gone(NodeName("n0"))
    assert occupancy.occupancy(source.seen()) == occupancy.Occupancy(in_use=0, free=2, closed=2, booked=0)


def test_no_time_is_counted_before_the_start() -> None:
    found = usage.Usage()
    found.advance(now=NOW)
    found.advance(now=NOW + 5)
    assert found.accounts == {}


def test_packing_efficiency_is_the_booked_part_of_the_gpus_in_use() -> None:
    source = builders.cluster(nodes=1, gpus=4)
    assert occupancy.occupancy(source.seen()).efficiency == 1.0
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.bound("b", 80, "n0", "GPU-n0-1"))
    assert occupancy.occupancy(source.seen()).efficiency == pytest.approx(0.6)


def test_the_counters_grow_by_what_was_used_since() -> None:
    source, counts = busy(), metrics.Metrics()
    for now in (NOW + 10, NOW + 20):
        source.usage.advance(now=now)
        counts.used(source.usage)
    share = counts.registry.get_sample_value("cotenant_share_seconds_total", {"namespace": "team"})
    memory = counts.registry.get_sample_value("cotenant_memory_mib_seconds_total", {"namespace": "team"})
    assert share == pytest.approx(2800.0)
    assert memory == pytest.approx(20 * 2000)


def sample(counts: metrics.Metrics, namespace: str) -> float | None:
    return counts.registry.get_sample_value("cotenant_share_seconds_total", {"namespace": namespace})


def test_the_account_of_a_namespace_that_books_nothing_any_more_is_forgotten_after_a_while() -> None:
    source, counts = busy(), metrics.Metrics()

    def passes(seconds: float) -> float | None:
        source.usage.advance(now=source.usage.until + seconds)
        counts.used(source.usage)
        return sample(counts, "team")

    assert passes(10) == pytest.approx(1400.0)
    for name in ("a", "b"):
        end(source, name)
    assert passes(10) == pytest.approx(1400.0)
    assert passes(usage.KEPT_SECONDS - 1) == pytest.approx(1400.0)
    assert passes(1) is None
    assert source.usage.accounts == {}
    builders.put(source, builders.bound("d", 40, "n0", "GPU-n0-0"))
    assert passes(10) == pytest.approx(400.0)


def test_only_accounts_of_namespaces_that_book_are_looked_at() -> None:
    source = busy()
    for number in range(100):
        namespace = f"of-{number}"
        builders.put(source, builders.bound(f"p{number}", 1, "n1", "GPU-n1-0", namespace=namespace))
    source.usage.advance(now=NOW + 1)
    assert len(source.usage.grown) == 101
    for number in range(100):
        end(source, f"p{number}")
    source.usage.advance(now=NOW + 2)
    source.usage.advance(now=NOW + 3)
    assert source.usage.grown == ["team"]


def test_a_namespace_that_books_while_another_extender_counts_leaves_no_account() -> None:
    source = busy()
    for name in ("a", "b"):
        end(source, name)
    assert source.usage.accounts == {}


def test_predicted_and_booked_shares_are_counted_of_predicted_pods_alone() -> None:
    counts = metrics.Metrics()
    notes = {"cotenant.dev/prediction": builders.prediction(h200=(60.0, 1000, 50))}
    for raw in (builders.pod("a", 60, annotations=notes), builders.pod("b", 30)):
        request = records.pod_record(raw).request
        assert request is not None
        counts.placed(request.demand, GPUModel(builders.H200), 60)
    sample = counts.registry.get_sample_value
    name = "cotenant_extender_placed_share_hundredths_total"
    assert sample(name, {"figure": "predicted"}) == 30.0
    assert sample(name, {"figure": "booked"}) == 60.0
