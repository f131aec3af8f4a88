"""What the simulator's benchmark asks of the simulator, and what it makes of what it has measured."""

import json
from pathlib import Path

from cotenant_e2e.benchmark import plots
from cotenant_e2e.benchmark.simulator import runs, tables, workload


def measured(nodes: int = 1250, jobs: int = 100_000) -> runs.Measurement:
    return runs.Measurement(
        size=workload.Size(nodes, jobs),
        cpu_seconds=50.0,
        memory_mib=300,
        simulated_seconds=36_000.0,
        most_running=20_000,
        most_waiting=1_500,
        done=jobs,
        utilization_percent=70.4,
    )


def test_a_run_in_a_process_of_its_own_ends_all_jobs_and_says_what_it_took() -> None:
    found = runs.measure(workload.Size(1, 40))
    assert (found.done, found.size.gpus) == (40, 8)
    assert found.cpu_seconds > 0
    assert found.memory_mib > 0
    assert 0 < found.most_running <= 24
    assert 0 < found.utilization_percent < 100


def test_the_same_size_gives_the_same_jobs() -> None:
    size = workload.Size(1, 50)
    once, again = ([(job.arrives, job.kind.name, job.seconds) for job in workload.given(size)] for _ in range(2))
    assert once == again


def test_jobs_ask_for_as_much_as_the_cluster_serves_whatever_its_size() -> None:
    loads = []
    for size in (workload.Size(5, 4000), workload.Size(50, 4000)):
        given = list(workload.given(size))
        asked = sum(
            job.seconds[workload.MODEL] * job.kind.real[workload.MODEL].utilization.upper / 100 for job in given
        )
        loads.append(asked / (given[-1].arrives * size.gpus))
    assert all(abs(load / workload.LOAD - 1) < 0.1 for load in loads)


def test_the_table_has_a_row_for_each_size_and_the_conditions() -> None:
    lines = tables.lines([measured(125, 10_000), measured()], core="a core")
    assert lines[3] == "| 10,000 | 100,000 | 50.0 | 0.50 | 300 | 10.0 | 70 % | 20,000 | 1,500 |"
    assert lines[2].startswith("| 1,000 | 10,000 |")
    assert "(a core)" in lines[-1]
    assert "120 s and 2048 MiB" in lines[-1]


def test_the_document_says_that_gpus_are_simulated() -> None:
    value = json.loads(json.dumps(measured().to_object()))
    assert (value["simulatedGPUs"], value["jobs"], value["jobsDone"], value["cpuSeconds"]) == (
        10_000,
        100_000,
        100_000,
        50.0,
    )


def test_the_picture_is_the_same_for_the_same_figures(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plots.draw_simulator([measured(125, 10_000), measured()], tmp_path / name)
    drawn = (tmp_path / "a.svg").read_bytes()
    assert drawn == (tmp_path / "b.svg").read_bytes()
    assert b"CPU seconds of one core" in drawn
