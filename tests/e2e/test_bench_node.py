"""What the node agent's benchmark makes of what it has measured."""

import json

import pytest

from cotenant_api import names
from cotenant_e2e.benchmark.node import calls, crowd, pods, results, starts, tables, weight

METRICS = """
# TYPE cotenant_device_plugin_rpc_duration_seconds histogram
cotenant_device_plugin_rpc_duration_seconds_bucket{le="0.01",method="Allocate",result="OK"} 50.0
cotenant_device_plugin_rpc_duration_seconds_bucket{le="0.02",method="Allocate",result="OK"} 100.0
cotenant_device_plugin_rpc_duration_seconds_bucket{le="+Inf",method="Allocate",result="OK"} 100.0
cotenant_device_plugin_rpc_duration_seconds_count{method="Allocate",result="OK"} 100.0
cotenant_device_plugin_rpc_duration_seconds_sum{method="Allocate",result="OK"} 1.25
cotenant_device_plugin_rpc_duration_seconds_bucket{le="+Inf",method="PreStartContainer",result="UNAVAILABLE"} 3.0
cotenant_device_plugin_rpc_duration_seconds_count{method="PreStartContainer",result="UNAVAILABLE"} 3.0
cotenant_device_plugin_rpc_duration_seconds_sum{method="PreStartContainer",result="UNAVAILABLE"} 0.5
cotenant_device_plugin_rpc_duration_seconds_created{method="Allocate",result="OK"} 1.7e+09
cotenant_gpu_tenants{gpu_index="0"} 2.0
"""
ALLOCATED = (calls.ALLOCATE, calls.OK)
STARTED = (calls.PRE_START, calls.OK)


def start(seconds: float, **call_seconds: float) -> starts.Start:
    return starts.Start(
        seconds=seconds, call_seconds=call_seconds, refused={calls.PRE_START: 1} if call_seconds else {}
    )


def pair(shared: float, plain: float) -> starts.Pair:
    return starts.Pair(start(shared, Allocate=shared / 100, PreStartContainer=shared / 10), start(plain))


def usage(cpu_seconds: float = 0.3) -> crowd.Usage:
    return crowd.Usage(seconds=60, cpu_seconds=cpu_seconds, programs_seconds=5, rss_mib=70.4, peak_mib=75)


def measured() -> results.Measurement:
    made = {STARTED: calls.Calls(2, 0.3, {0.1: 1, 0.2: 2, float("inf"): 2})}
    made[ALLOCATED] = calls.read(METRICS)[ALLOCATED]
    one = crowd.Crowd(pods=110, shared_seconds=60, plain_seconds=40, calls=made, busy=usage(6), idle=usage())
    pairs = [pair(1.0, 0.5), pair(0.9, 0.6), pair(1.2, 1.0)]
    return results.Measurement(gpus=8, pairs=pairs, crowds=[one], empty=usage())


def test_calls_are_read_from_the_agents_metrics() -> None:
    found = calls.read(METRICS)
    assert (found[ALLOCATED].count, found[ALLOCATED].seconds) == (100, 1.25)
    assert calls.refused(found, calls.PRE_START) == 3
    assert calls.refused(found, calls.ALLOCATE) == 0


def test_a_quantile_lies_between_the_bounds_of_its_bucket() -> None:
    allocated = calls.read(METRICS)[ALLOCATED]
    assert allocated.quantile(0.5) == pytest.approx(0.01)
    assert allocated.quantile(0.99) == pytest.approx(0.0198)


def test_a_quantile_beyond_all_bounds_is_the_last_of_them() -> None:
    assert calls.Calls(4, 100.0, {0.1: 1, 30.0: 2, float("inf"): 4}).quantile(0.99) == 30.0


def test_only_what_came_between_two_readings_counts() -> None:
    before = calls.read(METRICS)
    after = calls.read(METRICS.replace("100.0", "101.0").replace("1.25", "1.5"))
    assert list(calls.between(before, after)) == [ALLOCATED]
    assert calls.between(before, after)[ALLOCATED].seconds == pytest.approx(0.25)


def test_rounds_add_up() -> None:
    allocated = calls.read(METRICS)[ALLOCATED]
    both = calls.total([allocated, allocated])
    assert (both.count, both.seconds, both.buckets[0.01]) == (200, 2.5, 100)


def test_a_container_has_begun_when_its_first_line_is_whole() -> None:
    line = "2026-01-01T00:00:01.250000000Z stdout F began\n"
    assert pods.began_at(line) == pytest.approx(1767225601.25)
    assert pods.began_at(line[:-1]) is None
    assert pods.began_at("") is None


def test_the_two_kinds_of_pods_differ_in_the_share_alone() -> None:
    shared, plain = (pods.pod(3, shared=each, stays=True) for each in (True, False))
    (container,) = shared["spec"]["containers"]
    assert container.pop("resources") == {"limits": {names.GPU_SHARE: str(pods.SHARE)}}
    del shared["metadata"]["annotations"]
    assert shared == plain


def test_the_cpu_of_programs_is_not_the_agents_own() -> None:
    stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 300 120 500 0 20 0 1 0 55 0 0"
    found = weight.parse(stat, "Name:\ta\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n")
    assert (found.cpu_seconds, found.programs_seconds) == (4.2, 5.0)
    assert (found.rss_mib, found.peak_mib) == (1.0, 2.0)


def test_a_ratio_is_the_median_of_the_pairs_ratios() -> None:
    one = measured().one()
    assert (one.median, one.least, one.most, one.shared_seconds, one.plain_seconds) == (1.5, 1.2, 2.0, 1.0, 0.6)


def test_the_document_can_be_written_as_json() -> None:
    value = json.loads(json.dumps(measured().to_object()))
    assert value["standInGPUs"] == 8
    assert value["agent"]["with 110 tenants, nothing changes"]["cpu_percent"] == 0.5


def test_the_tables_begin_with_ratios_and_end_with_the_conditions() -> None:
    lines = tables.lines(measured())
    assert "| **1.50** | 1.20 to 2.00 | 1.00 | 0.60 | 3 |" in lines[2]
    assert "| PreStartContainer | 1 | 3 | 100.0 | 120.0 | 3 |" in lines
    assert "| Allocate | 110 | 100 | about 10.0 | about 19.8 | 0 |" in lines
    assert "| without a tenant, nothing changes | 60 | 0.30 | 0.50 | 5.00 | 70 | 75 |" in lines
    assert "8 stand-in GPUs" in lines[-1]
