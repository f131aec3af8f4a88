"""The committed example graphs: readable, small, and different enough for packing to have something to do."""

from pathlib import Path

import pytest

from cotenant_api.graph import Graph, Mode
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction as jobs

FOLDER = Path(__file__).parents[2] / "manifests" / "examples" / "graphs"
FILES = sorted(FOLDER.glob("*.json"))
GRAPHS = {path.stem: Graph.read(path.read_bytes(), source=path.name) for path in FILES}


def upper(model: str) -> list[float]:
    gpus = devices.select([model])
    return [jobs.predict(graph, gpus).by_gpu[gpus[0].name].utilization.upper for graph in GRAPHS.values()]


def test_there_are_at_least_twenty() -> None:
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_fits_a_configmap_and_is_named_as_its_file(path: Path) -> None:
    assert path.stat().st_size <= 100 * 1024
    graph = GRAPHS[path.stem]
    assert graph.name == path.stem
    assert f'"digest":"{graph.digest}"' in path.read_text(encoding="utf-8")


def test_every_operator_of_the_examples_is_known() -> None:
    assert {name for graph in GRAPHS.values() for name in graph.coverage.unknown} == set()


def test_examples_train_and_serve() -> None:
    assert {graph.mode for graph in GRAPHS.values()} == {Mode.TRAINING, Mode.INFERENCE}
    assert all((graph.inference is not None) is (graph.mode is Mode.INFERENCE) for graph in GRAPHS.values())


def test_utilization_varies_from_little_to_all() -> None:
    found = upper("NVIDIA-H200")
    assert min(found) < 6
    assert max(found) == 100
    assert sum(10 <= value <= 60 for value in found) >= 10


def test_every_regime_occurs() -> None:
    predictions = [jobs.predict(graph, devices.load().values()) for graph in GRAPHS.values()]
    regimes = {row.regime for prediction in predictions for row in prediction.by_gpu.values()}
    assert regimes == {"Compute", "Memory", "Launch", "Host"}
