"""What the benchmark makes of its rounds."""

import datetime as dt
import json

import pytest

from cotenant_api import names, pod, prediction
from cotenant_api.names import NodeName
from cotenant_e2e.benchmark import blocking, crowd, metrics, objects, results, tables, usage, world
from cotenant_e2e.benchmark.rounds import Contender, Round
from cotenant_extender import records

SPEEDS = {
    Contender.GATED_OURS: 80.0,
    Contender.GATED_PLAIN: 100.0,
    Contender.LIFTED_OURS: 150.0,
    Contender.PLAIN: 200.0,
    Contender.SAMPLED: 300.0,
}


def turn(**changed: float) -> dict[Contender, Round]:
    """A round of each; `plain=100` changes one's pods per second."""
    speeds = SPEEDS | {Contender(name): speed for name, speed in changed.items()}
    return {
        contender: Round(
            contender=contender,
            pods=10,
            pods_per_second=speed,
            cpu_milliseconds_per_pod={"etcd": 1.0, "kube-apiserver": 2.0},
            writes_per_pod={"POST pods/binding": 1.0},
            requests={"filter.ok": 10, "bind.bound": 9, "bind.refused": 1} if contender.ours else {},
        )
        for contender, speed in speeds.items()
    }


def measured(*turns: dict[Contender, Round], nodes: int = 100) -> results.Measurement:
    return results.Measurement(nodes=nodes, gpus=8 * nodes, cores=2, turns=turns or (turn(),))


def test_a_ratio_is_the_median_of_the_turns_ratios() -> None:
    found = measured(turn(plain=100.0), turn(plain=300.0), turn()).found()
    assert [(round(one.median, 2), round(one.least, 2), round(one.most, 2)) for one in found] == [
        (0.75, 0.5, 1.5),
        (0.8, 0.8, 0.8),
        (0.5, 0.5, 0.5),
    ]


def test_a_ratio_of_which_one_side_was_not_measured_is_left_out() -> None:
    only = {Contender.PLAIN: turn()[Contender.PLAIN]}
    assert measured(only).found() == []


def test_requests_that_did_not_end_well_are_counted() -> None:
    assert measured().failures == {"bind.refused": 2}


def test_the_document_has_bars_beside_ratios_and_says_that_gpus_are_simulated() -> None:
    value = json.loads(json.dumps(measured().to_object()))
    assert (value["simulatedGPUs"], value["ratios"][0]["bar"], value["ratios"][2]["bar"]) == (800, 0.7, None)
    assert value["rounds"][0]["contender"] == "gated-ours"


def test_the_table_begins_with_ratios_and_ends_with_the_conditions() -> None:
    lines = tables.lines([measured()])
    assert lines[2] == "| 100 | filter and bind | **0.75** | 0.75 to 0.75 | 0.70 | 0.85 |"
    assert "simulated GPUs; 2 cores for everything" in lines[-1]


def test_cpu_time_is_read_behind_a_name_with_spaces_and_parentheses() -> None:
    stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 55 0 0"
    assert usage.ticks(stat) == 42


def test_a_process_that_was_started_meanwhile_counts_from_its_start() -> None:
    assert usage.spent({"a": 1.0}, {"a": 3.0, "b": 2.0}) == {"a": 2.0, "b": 2.0}


EXTENDER = """
cotenant_extender_requests_total{result="ok",verb="filter"} 3.0
cotenant_extender_binds_total{result="bound"} 2.0
cotenant_extender_lifts_total{kind="gate",result="ok"} 5.0
cotenant_extender_lifts_total{kind="scale-up",result="ok"} 1.0
cotenant_extender_queue_pods 4.0
"""
API_SERVER = """
apiserver_request_total{code="201",resource="pods",scope="resource",subresource="binding",verb="POST"} 7
apiserver_request_total{code="409",resource="pods",scope="resource",subresource="binding",verb="POST"} 1
apiserver_request_total{code="200",resource="pods",scope="resource",subresource="",verb="GET"} 9
"""


def test_what_the_extender_counted_is_read_from_its_metrics() -> None:
    assert metrics.results(EXTENDER) == {"filter.ok": 3, "bind.bound": 2, "gate.ok": 5, "scale-up.ok": 1}
    assert metrics.lifted(EXTENDER) == 5


def test_requests_that_the_api_server_turned_away_are_counted_and_those_that_it_gave_up_are_not() -> None:
    line = 'apiserver_request_terminations_total{code="%s",component="apiserver",resource="pods",verb="POST"} %s'
    assert metrics.turned_away("\n".join((line % (429, 892), line % (504, 3), line % (429, "5e+02")))) == 1392


def test_writes_are_counted_whatever_became_of_them() -> None:
    assert metrics.writes(API_SERVER) == {"POST pods/binding": 8}


def test_pods_are_the_same_whoever_schedules_them() -> None:
    ours = objects.pod(3, namespace=objects.OURS, scheduler=names.SCHEDULER_NAME, gated=True)
    plain = objects.pod(3, namespace=objects.PLAIN, scheduler="plain-100", gated=False)
    assert ours["spec"]["containers"] == plain["spec"]["containers"]
    assert ours["metadata"]["annotations"] == plain["metadata"]["annotations"]
    text = ours["metadata"]["annotations"][names.PREDICTION]
    assert prediction.Prediction.from_json(text, source="test").by_gpu[objects.MODEL].memory_mib.upper == 9003


def test_a_large_cluster_is_listed_in_pages_that_say_where_to_go_on() -> None:
    pages = world.pages(world.Size(nodes=2, pods=world.PAGE + 1), now="2026-01-01T00:00:00Z")
    first, second = (json.loads(page) for page in pages["/api/v1/pods"])
    assert (len(first["items"]), first["metadata"]["continue"]) == (world.PAGE, str(world.PAGE))
    assert (len(second["items"]), second["metadata"]["continue"]) == (1, "")


def test_a_placed_pod_asks_for_what_its_placement_books() -> None:
    found = world.placed_pod(5, [NodeName("a"), NodeName("b")])
    booked = json.loads(found["metadata"]["annotations"][names.PLACEMENT])
    assert (booked["node"], booked["gpus"][0]["share"]) == ("b", pod.demand(found).share)


@pytest.mark.parametrize("contender", list(Contender))
def test_every_contender_says_whose_it_is(contender: Contender) -> None:
    assert contender.ours is ("ours" in contender)


def test_the_longest_turns_have_a_table_with_a_row_for_each_placement_and_the_bar() -> None:
    found = blocking.Blocks(lists=10.2, first_passes=46.4, placements={"FGD": 45.1}, order=28.0)
    lines = tables.of_extender([], {5000: found})
    assert "| longest turn of the event loop at 5000 nodes, while | ms |" in lines
    assert "| `placement: FGD` comes into force | 45 |" in lines
    assert lines[-1].endswith("Bar: 50 ms.")


def test_the_crowd_is_made_of_pods_that_the_extender_can_read() -> None:
    nodes = [NodeName(node["metadata"]["name"]) for node in objects.node_list(100)]
    found = [records.pod_record(raw) for raw in crowd.pods(nodes, now=dt.datetime(2026, 6, 1, tzinfo=dt.UTC))]
    tenants, waiting = found[: 8 * len(nodes)], found[8 * len(nodes) :]
    assert {pod.invalid for pod in found} == {None}
    assert all(pod.placement is not None and pod.phase == "Running" for pod in tenants)
    assert (len(waiting), all(pod.gated for pod in waiting)) == (2 * len(nodes), True)
    assert sum(pod.gang == waiting[0].gang for pod in waiting) == crowd.GANG
