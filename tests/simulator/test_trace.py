"""Reading the trace: what is there is understood, and what cannot be used is named."""

from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_simulator.openb import trace
from simulator import synthetic

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"


def folder(path: Path, *pods: str, header: str = PODS) -> Path:
    """A folder with the synthetic nodes, and these lines of pods."""
    synthetic.write(path)
    (path / "openb_pod_list_own.csv").write_text("\n".join([header, *pods]) + "\n", encoding="utf-8")
    return path


def test_nodes_and_pods_come_by_name(tmp_path: Path) -> None:
    read = trace.read(folder(tmp_path, "b,2000,1024,1,500", "a,1000,512,0,0"), "own")
    assert [pod.name for pod in read.pods] == ["a", "b"]
    assert [node.name for node in read.nodes] == sorted(node.name for node in read.nodes)
    assert read.pods[1] == trace.Pod(name="b", cpu_millis=2000, memory_mib=1024, gpus=1, milli=500, models=frozenset())


def test_capacity_is_all_gpus_in_thousandths(tmp_path: Path) -> None:
    read = trace.read(folder(tmp_path, "a,1,1,1,10"), "own")
    assert read.capacity_milli == 1000 * sum(node.gpus for node in read.nodes)


def test_models_are_separated_by_bars_and_the_column_may_be_missing_or_empty(tmp_path: Path) -> None:
    lines = ("a,1,1,1,10,V100M16|V100M32,LS", "b,1,1,1,10,,LS", "c,1,1,1,10")
    read = trace.read(folder(tmp_path, *lines, header=f"{PODS},gpu_spec,qos"), "own")
    assert [pod.models for pod in read.pods] == [{"V100M16", "V100M32"}, frozenset(), frozenset()]
    without = trace.read(folder(tmp_path, "a,1,1,1,10"), "own")
    assert without.pods[0].models == frozenset()


def test_a_pod_without_gpu_may_leave_the_share_empty(tmp_path: Path) -> None:
    read = trace.read(folder(tmp_path, "a,1,1,0,", "b,1,1,1,10"), "own")
    assert read.pods[0].demand_milli == 0


def test_whole_numbers_may_be_written_with_a_decimal(tmp_path: Path) -> None:
    read = trace.read(folder(tmp_path, "a,2000.0,1024.0,1.0,500.0"), "own")
    assert (read.pods[0].cpu_millis, read.pods[0].gpus, read.pods[0].milli) == (2000, 1, 500)


def test_traces_of_a_folder_are_listed_by_name(tmp_path: Path) -> None:
    assert trace.names_in(folder(tmp_path, "a,1,1,1,10")) == ("models", "own", "plain")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,1,1,1,455", r"own.csv:2: gpu_milli: '455': must be 10 to 1000 in steps of 10"),
        ("a,1,1,1,1010", r"own.csv:2: gpu_milli"),
        ("a,1,1,1,0", r"own.csv:2: gpu_milli"),
        ("a,1,1,2,500", r"own.csv:2: gpu_milli: '500': must be 1000"),
        ("a,x,1,1,500", r"own.csv:2: cpu_milli: 'x': must be a whole number"),
        ("a,1,-1,1,500", r"own.csv:2: memory_mib: '-1'"),
        ("a,1,1,1.5,500", r"own.csv:2: num_gpu: '1.5'"),
        (",1,1,1,500", r"own.csv:2: name: '': must not be empty"),
        ("a,1,1,0,0", r"at least one pod must ask for a GPU"),
        ('a,1,1,1,"500', r"own.csv: .*must be CSV"),
    ],
)
def test_a_cell_that_cannot_be_used_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=said):
        trace.read(folder(tmp_path, line), "own")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"own.csv:1: .*missing: gpu_milli"):
        trace.read(folder(tmp_path, "a,1,1,1", header="name,cpu_milli,memory_mib,num_gpu"), "own")


def test_a_pod_that_is_there_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"own.csv: 'a': must be there once"):
        trace.read(folder(tmp_path, "a,1,1,1,10", "a,1,1,1,20"), "own")


def test_a_file_without_lines_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"own.csv: .*at least one line"):
        trace.read(folder(tmp_path), "own")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (folder(tmp_path) / "openb_pod_list_own.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(errors.InvalidInputError, match=r"own.csv: .*must be CSV in UTF-8"):
        trace.read(tmp_path, "own")


def test_a_trace_that_is_missing_says_which_are_there(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--trace: 'none': .*models, own, plain"):
        trace.read(folder(tmp_path, "a,1,1,1,10"), "none")


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--trace-dir: .*must be a folder that holds"):
        trace.read(tmp_path / "none", "own")


def test_missing_nodes_are_named(tmp_path: Path) -> None:
    (folder(tmp_path, "a,1,1,1,10") / trace.NODES_FILE).unlink()
    with pytest.raises(errors.InvalidInputError, match=r"openb_node_list_gpu_node.csv.*cannot be read"):
        trace.read(tmp_path, "own")
