"""Measurement files: what cannot be used is an error that names file, line and remedy; nothing is mixed or averaged."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_api.graph import Graph, Mode, OperatorClass
from cotenant_api.measurement import Measurement, Values
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.datasets import measurements, shipped
from predictor_kit import synthetic

GRAPHS = synthetic.graphs(2, scales=(1, 2))
LINES = tuple(synthetic.alone(GRAPHS))
PAIRS = tuple(synthetic.pairs(GRAPHS))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes graphs and raw lines into a file."""

    def written(*lines: str, graphs: list[Graph] = GRAPHS, name: str = "runs.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("\n".join([*(graph.to_json() for graph in graphs), *lines]) + "\n", encoding="utf-8")
        return path

    return written


def load(path: Path) -> measurements.Measurements:
    return measurements.load([path], simulated=True)


def changed(line: Measurement, **keys: Any) -> str:
    return json.dumps(line.to_object() | keys)


def test_lines_and_graphs_may_mix_in_files_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    texts = [graph.to_json() for graph in GRAPHS]
    (tmp_path / "deep" / "graphs.jsonl.gz").write_bytes(gzip.compress("\n".join(texts[:2]).encode()))
    (tmp_path / "one.json").write_text(texts[2])
    (tmp_path / "two.json.gz").write_bytes(GRAPHS[3].packed())
    (tmp_path / "runs.jsonl").write_text("\n\n".join(line.to_json() for line in LINES))
    (tmp_path / "notes.txt").write_text("not read")
    read = load(tmp_path)
    assert len(read) == len(LINES)
    assert set(read.graphs) == {graph.digest for graph in GRAPHS}


def test_the_order_of_lines_and_a_file_named_twice_change_nothing(write: Callable[..., Path]) -> None:
    forward = write(*[line.to_json() for line in LINES], name="a.jsonl")
    backward = write(*[line.to_json() for line in reversed(LINES)], name="b.jsonl")
    assert load(forward).records == load(backward).records
    assert (
        measurements.load([forward, forward.parent / "." / "a.jsonl"], simulated=True).records == load(forward).records
    )


def test_a_pretty_printed_document_is_one_document(write: Callable[..., Path], tmp_path: Path) -> None:
    write(graphs=GRAPHS)
    (tmp_path / "line.json").write_text(json.dumps(LINES[0].to_object(), indent=2))
    assert len(load(tmp_path)) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"runs\.jsonl:5.*must be JSON"),
        ("[1]", r"runs\.jsonl:5.*must be a JSON object"),
        ('{"v":1}', r"runs\.jsonl:5.*must be a graph document .* or a measurement"),
        (changed(LINES[0], durationSeconds=-1), r"runs\.jsonl:5\.durationSeconds"),
        (changed(LINES[0], v=9), r"runs\.jsonl:5\.v.*upgrade"),
        (changed(LINES[0], gpuModel="NVIDIA-Unheard-Of"), r"runs\.jsonl:5\.gpuModel.*give its row by --devices"),
        (changed(LINES[0], graph="sha256:00"), r"runs\.jsonl:5\.graph.*sha256:00.*add the file or the folder"),
        (changed(LINES[0], simulated=False), r"runs\.jsonl:5\.simulated.*simulated lines alone"),
        (changed(LINES[0], outcome="Fine"), r"runs\.jsonl:5\.outcome"),
        (changed(LINES[0], group=""), r"runs\.jsonl:5\.group"),
        (changed(PAIRS[0], mechanism="Alone"), r"runs\.jsonl:5\.mechanism.*no coTenants"),
        (changed(PAIRS[0], coTenants=[{"graph": "sha256:11"}]), r"runs\.jsonl:5\.coTenants\[0\]\.graph"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(write: Callable[..., Path], line: str, message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=message):
        load(write(line))


def test_a_figure_that_is_no_number_is_named(write: Callable[..., Path]) -> None:
    values = LINES[0].to_object()["values"] | {"utilization": float("nan")}
    with pytest.raises(errors.InvalidInputError, match=r"runs\.jsonl:5\.values\.utilization.*finite"):
        load(write(changed(LINES[0], values=values)))


def test_a_line_that_is_there_twice_is_refused_with_both_places(write: Callable[..., Path]) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"runs\.jsonl:6\.id.*is at .*runs\.jsonl:5: keep one"):
        load(write(LINES[0].to_json(), LINES[0].to_json()))


def test_repeats_are_kept_and_weigh_as_much_as_one(write: Callable[..., Path]) -> None:
    lines = [*synthetic.alone(GRAPHS[:1], repeats=4), *synthetic.alone(GRAPHS[1:2])]
    read = load(write(*[line.to_json() for line in lines]))
    assert len(read) == 4 * 2 + 2
    assert read.weights.sum() == pytest.approx(4.0)


def test_a_joint_run_has_no_more_lines_than_tenants(write: Callable[..., Path]) -> None:
    lines = [PAIRS[0].to_json(), PAIRS[1].to_json(), PAIRS[0].to_json()]
    with pytest.raises(errors.InvalidInputError, match=r"3 lines for 2 tenants"):
        load(write(*lines))


def test_tenants_of_one_run_must_name_one_another(write: Callable[..., Path]) -> None:
    stranger = changed(PAIRS[2], id=PAIRS[0].id)
    with pytest.raises(errors.InvalidInputError, match="does not name the tenants of the other lines"):
        load(write(PAIRS[0].to_json(), stranger))


def test_measured_lines_are_refused_where_simulated_ones_are_asked_for_and_the_other_way(
    write: Callable[..., Path],
) -> None:
    path = write(LINES[0].to_json())
    with pytest.raises(errors.InvalidInputError, match=r"--simulated"):
        measurements.load([path])
    assert load(path).simulated


def test_lines_may_name_the_gpu_models_that_are_given(write: Callable[..., Path]) -> None:
    row = next(iter(devices.load().values())).model_copy(update={"name": GPUModel("NVIDIA-H999")})
    path = write(changed(LINES[0], gpuModel="NVIDIA-H999"))
    read = measurements.load([path], known={row.name: row}, simulated=True)
    assert read.gpu_models == ("NVIDIA-H999",)
    assert read.known == {row.name: row}


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00cut", b"no gzip"])
def test_a_damaged_archive_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(errors.InvalidInputError, match=r"runs\.jsonl\.gz.*whole gzip file"):
        load(path)


def test_files_of_another_kind_missing_files_and_empty_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b")
    with pytest.raises(errors.InvalidInputError, match=r"must end in one of \.jsonl"):
        load(tmp_path / "table.csv")
    with pytest.raises(errors.InvalidInputError, match="cannot be read"):
        load(tmp_path / "missing.jsonl")
    with pytest.raises(errors.InvalidInputError, match="holds no file"):
        load(tmp_path)


def test_graphs_without_a_measurement_are_not_enough(write: Callable[..., Path]) -> None:
    with pytest.raises(errors.InvalidInputError, match="holds no measurement"):
        load(write())


def test_a_graph_whose_content_was_changed_is_refused(write: Callable[..., Path]) -> None:
    damaged = GRAPHS[0].to_json().replace(f'"batchSize":{GRAPHS[0].batch_size}', '"batchSize":7')
    with pytest.raises(errors.InvalidInputError, match=r"runs\.jsonl:5\.digest"):
        load(write(damaged))


def test_a_run_that_did_not_end_well_has_no_values_but_says_what_it_needed(write: Callable[..., Path]) -> None:
    lines = [changed(LINES[0], outcome="OutOfMemory", memoryLimitMiB=500), changed(LINES[1], outcome="Timeout")]
    read = load(write(*lines, LINES[2].to_json()))
    assert np.isfinite(read.values("utilization")).sum() == 1
    assert np.isfinite(read.values("memoryPeakMiB")).sum() == 1
    assert read.out_of_memory.sum() == 1
    assert np.nansum(read.memory_floor_mib()) == 500


def test_a_value_that_was_not_measured_is_nan_and_an_unknown_one_an_error(write: Callable[..., Path]) -> None:
    read = load(write(PAIRS[0].to_json(), PAIRS[1].to_json()))
    assert np.isnan(read.values("utilization")).all()
    assert np.isfinite(read.values("normalizedSpeed")).all()
    with pytest.raises(KeyError):
        read.values("happiness")


def test_jobs_alone_limited_and_together_are_told_apart(write: Callable[..., Path]) -> None:
    limited = changed(LINES[1], threadPercentage=50, mechanism="MPS", id="limited")
    read = load(write(LINES[0].to_json(), limited, PAIRS[0].to_json(), PAIRS[1].to_json()))
    assert (len(read.alone()), len(read.limited()), len(read.joint())) == (1, 1, 2)
    assert sorted(map(len, read.runs().values())) == [1, 1, 2]


def test_every_value_of_a_measurement_has_a_target_of_its_name() -> None:
    names = {field.alias or name for name, field in Values.model_fields.items()}
    assert set(measurements.TARGETS) <= names


def test_a_family_is_taken_from_the_line_before_the_graph(write: Callable[..., Path]) -> None:
    named = changed(LINES[0], family="vision")
    read = load(write(named, LINES[1].to_json()))
    assert sorted(read.families)[1] == "vision"


@pytest.mark.parametrize(
    ("kinds", "mode", "family"),
    [
        ([OperatorClass.CONV, OperatorClass.NORM], Mode.TRAINING, "conv-training"),
        ([OperatorClass.MATMUL], Mode.INFERENCE, "matmul-inference"),
        ([OperatorClass.MATMUL, OperatorClass.ATTENTION], Mode.TRAINING, "attention-training"),
        ([OperatorClass.MATMUL, OperatorClass.RNN], Mode.TRAINING, "rnn-training"),
    ],
)
def test_a_family_is_derived_from_most_of_the_work(
    build: Any, kinds: list[OperatorClass], mode: Mode, family: str
) -> None:
    operators = [build.matmul(operator_class=kind, flops=2**30 >> place) for place, kind in enumerate(kinds)]
    assert measurements.family_of(build.graph(*operators, mode=mode)) == family


def test_a_graph_without_flops_is_named_by_what_it_moves(build: Any) -> None:
    assert measurements.family_of(build.graph(build.copy())) == "copy-training"


def test_data_are_told_apart_as_sets_and_files(tmp_path: Path) -> None:
    names, paths = shipped.told_apart(["gavel", str(tmp_path), "gavel"])
    assert (names, paths) == (("gavel",), (tmp_path,))


def test_data_that_are_neither_are_refused_with_the_sets(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"no shipped set; the sets are kernels, .*miso"):
        shipped.told_apart([str(tmp_path / "nothing")])
