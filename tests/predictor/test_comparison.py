"""Whether a model would be better than the one in use: on networks that neither has seen, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from cotenant_predictor.commands import train
from cotenant_predictor.datasets import measurements
from cotenant_predictor.evaluation import comparison
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.models import store
from cotenant_predictor.models.store import Model
from predictor_kit import synthetic
from predictor_kit.commands import called

pytestmark = pytest.mark.usefixtures("few_trees")

GRAPHS = synthetic.graphs(12, scales=(1, 2))
TARGETS = ("utilization", "memoryPeakMiB")


def one(active: float, candidate: float) -> comparison.Comparison:
    return comparison.Comparison(
        target="utilization", metric="rmsle", rows=8, groups=2, active=active, candidate=candidate
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = list(synthetic.alone(GRAPHS, targets=TARGETS))
    return synthetic.write(tmp_path_factory.mktemp("data") / "runs.jsonl", GRAPHS, lines)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough to learn from where nothing has to come of it: each network is a fold."""
    lines = list(synthetic.alone(GRAPHS[:8], targets=TARGETS))
    return synthetic.write(tmp_path_factory.mktemp("few") / "runs.jsonl", GRAPHS[:8], lines)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([(1.0, 0.5)], True),
        ([(1.0, 0.99)], False),
        ([(1.0, 1.0)], False),
        ([(1.0, 0.5), (1.0, 1.01)], True),
        ([(1.0, 0.5), (1.0, 1.1)], False),
        ([], False),
    ],
)
def test_better_is_better_at_something_and_worse_at_nothing(scores: list[tuple[float, float]], expected: bool) -> None:
    assert comparison.is_better([one(*each) for each in scores]) is expected


def test_what_the_formula_misses_is_learned_and_that_is_better(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "candidate"
    assert called(train, str(data), "--simulated", "--only-if-better", "--out", str(out)) == 0
    assert store.load(out).simulated
    assert "better than the model in use" in capsys.readouterr().out


def test_groups_that_the_model_in_use_has_seen_are_no_test_of_it(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    active = tmp_path / "active"
    assert called(train, str(few), "--simulated", "--out", str(active)) == 0
    assert comparison.compare(measurements.load([few], simulated=True), store.load(active)) == []
    out = tmp_path / "candidate"
    arguments = (str(few), "--simulated", "--only-if-better", "--than", str(active), "--out", str(out))
    assert called(train, *arguments) == train.NOT_BETTER
    assert not out.exists()
    assert "not better" in capsys.readouterr().out


def test_one_network_alone_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graphs = [synthetic.scaled(GRAPHS[0], factor) for factor in range(1, 9)]
    file = synthetic.write(tmp_path / "one.jsonl", graphs, list(synthetic.alone(graphs, targets=TARGETS)))
    arguments = (str(file), "--simulated", "--only-if-better", "--out", str(tmp_path / "out"))
    assert called(train, *arguments) == train.NOT_BETTER
    assert "at least 2 labels" in capsys.readouterr().out


def active(*, median: float, upper: float, knows: bool) -> Model:
    """A model in use that says so many times what the formula says of utilization, of all jobs or of none."""
    columns = len(features.NAMES)
    says = Residual(
        physics_column=0, slope=1.0, offset=float(np.log(median)), trees=None, trust_near=0.0, trust_far=0.0,
        center=np.zeros(columns), scale=np.ones(columns), reference=np.full((1, columns), -1e3),
        near=0.0, far=1.0, outside=1e9 if knows else -1.0,
        width_near=float(np.log(upper / median)), width_far=float(np.log(upper / median)),
    )  # fmt: skip
    return Model(name="in-use", jobs={"utilization": Guarded(members=(says,))})


def compared(data: Path, model: Model) -> dict[str, comparison.Comparison]:
    """The scores of utilization, by metric."""
    found = comparison.compare(measurements.load([data], simulated=True), model)
    return {each.metric: each for each in found if each.target == "utilization"}


def test_better_medians_with_worse_bounds_are_not_better(data: Path) -> None:
    found = compared(data, active(median=0.4, upper=0.8, knows=True))
    medians, bounds = found["rmsle"], found[comparison.BOOKING]
    assert medians.candidate < comparison.BETTER * medians.active
    assert bounds.active < comparison.BETTER * bounds.candidate
    assert not comparison.is_better(list(found.values()))


def test_a_model_that_knows_the_jobs_that_run_is_better_than_one_that_does_not(few: Path) -> None:
    found = compared(few, active(median=0.65, upper=0.8, knows=False))[comparison.OUT_OF_DOMAIN]
    assert (found.active, found.rows) == (1.0, 16)
    assert found.candidate < 0.2
