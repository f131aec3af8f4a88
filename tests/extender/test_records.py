"""Raw objects become records."""

import pytest

from cotenant_api import names
from cotenant_extender import records
from extender import builders
from extender.builders import NOW


def test_a_pod_that_asks_unreadably_makes_a_record_that_says_why() -> None:
    record = records.pod_record(builders.pod("a", annotations={names.PREDICTION: "{"}))
    assert record.request is None
    assert record.share == 40
    assert record.invalid is not None
    assert "cotenant.dev/prediction" in record.invalid


def test_a_pod_of_another_scheduler_is_not_placed() -> None:
    record = records.pod_record(builders.pod("a", schedulerName="default-scheduler"))
    assert record.request is None
    assert record.invalid is not None
    assert "spec.schedulerName" in record.invalid


def test_a_priority_that_the_api_server_cannot_have_written_makes_no_record() -> None:
    with pytest.raises(TypeError, match=r"spec.priority: 1.5: must be an integer"):
        records.pod_record(builders.pod("a", priority=1.5))


def test_a_pods_time_in_the_queue_counts_from_when_its_job_first_asked() -> None:
    notes = {names.QUEUED_SINCE: builders.timestamp(NOW - 600)}
    assert records.pod_record(builders.pod("a", annotations=notes)).since == NOW - 600


def test_a_queue_time_in_the_future_counts_from_the_pods_creation() -> None:
    notes = {names.QUEUED_SINCE: builders.timestamp(NOW + 600)}
    assert records.pod_record(builders.pod("a", annotations=notes)).since == NOW


def test_host_requests_count_sidecars_and_the_largest_init_container_and_overhead() -> None:
    def container(cpu: str, **more: str) -> dict[str, object]:
        return {"name": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}, **more}

    raw = builders.pod("a", 0, node="n1", containers=[container("100m"), container("200m")])
    raw["spec"]["initContainers"] = [container("50m", restartPolicy="Always"), container("400m")]
    raw["spec"]["overhead"] = {"cpu": "10m"}
    assert records.pod_record(raw).host.cpu_millis == 460
    raw["spec"]["initContainers"][1] = container("100m")
    assert records.pod_record(raw).host.cpu_millis == 360


def test_requests_of_the_pod_itself_replace_those_of_its_containers() -> None:
    raw = builders.pod("a", 0, node="n1", resources={"requests": {"cpu": "2"}})
    host = records.pod_record(raw).host
    assert (host.cpu_millis, host.memory_bytes) == (2000, 64 * 1024 * 1024)


@pytest.mark.parametrize("text", ["{", '{"v":9}', "[]", '{"v":1,"podUID":"x"}'])
def test_a_placement_that_cannot_be_read_is_none(text: str) -> None:
    raw = builders.pod("a", node="n1", annotations={names.PLACEMENT: text})
    assert records.pod_record(raw).placement is None


def test_a_placement_of_another_pod_or_node_is_none() -> None:
    other_pod = builders.pod("a", node="n1", annotations=builders.placement("b", "n1", {"GPU": 40}))
    other_node = builders.pod("a", node="n1", annotations=builders.placement("a", "n2", {"GPU": 40}))
    assert records.pod_record(other_pod).placement is None
    assert records.pod_record(other_node).placement is None


def test_fit_keys_of_pods_that_differ_in_name_alone_are_equal() -> None:
    one, two = (records.pod_record(builders.pod(name)).request for name in ("a", "b"))
    assert one is not None
    assert two is not None
    assert one.fit_key == two.fit_key


def test_a_pod_whose_gate_was_lifted_is_as_before_but_for_its_gate_earmark_and_version() -> None:
    before = records.pod_record(builders.pod("a", gates=(names.PACKING_GATE,)))
    metadata = {
        "resourceVersion": "7",
        "annotations": {names.EARMARK: "{}"},
        "deletionTimestamp": builders.timestamp(NOW),
    }
    after = records.lifted(before, metadata)
    assert (after.gates, after.version, after.earmark, after.deleting, after.tenure.leaves) == ((), 7, "{}", True, NOW)
    assert after.request is before.request
