"""What one namespace reports cannot lower what is predicted for the jobs of others."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api.measurement import Measurement
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.commands import train
from cotenant_predictor.datasets import measurements
from cotenant_predictor.jobs import features, prediction
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.models import store
from cotenant_predictor.training import guarding, run, table
from cotenant_predictor.training.table import Table
from predictor_kit import synthetic
from predictor_kit.commands import called

pytestmark = pytest.mark.usefixtures("few_trees")

TARGET = "utilization"
GRAPHS = synthetic.graphs(8, scales=(1, 2))
GPU = GPUModel("NVIDIA-H200")
Value = Callable[[int], float]


def of_namespace(lines: Iterable[Measurement], namespace: str, value: Value | None = None) -> list[Measurement]:
    """The lines as those of a namespace, with a utilization of its choice."""
    return [
        line.model_copy(
            update={
                "namespace": namespace,
                "id": f"{namespace}-{place}",
                "values": line.values
                if value is None
                else line.values.model_copy(update={"utilization": value(place)}),
            }
        )
        for place, line in enumerate(lines)
    ]


def honest(namespace: str) -> list[Measurement]:
    return of_namespace(synthetic.alone(GRAPHS[:8], targets=(TARGET,)), namespace)


def table_of(folder: Path, lines: list[Measurement]) -> Table:
    file = synthetic.write(folder / f"{len(list(folder.iterdir()))}.jsonl", GRAPHS, lines)
    return table.of(measurements.load([file], simulated=True))


def learned(folder: Path, lines: list[Measurement]) -> Guarded | None:
    rows = table_of(folder, lines)
    return run.guarded(rows, TARGET, np.arange(len(lines)))


ATTACKS: dict[str, Value] = {
    "all at 1 %": lambda _: 1.0,
    "all at 0 %": lambda _: 0.0,
    "all at 100 %": lambda _: 100.0,
    "now high, now low": lambda place: 100.0 * (place % 2),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_with_one_namespace_alone_no_bound_is_below_the_formula(tmp_path: Path, attack: str) -> None:
    lines = of_namespace(synthetic.alone(GRAPHS[:6], targets=(TARGET,)), "mallory", ATTACKS[attack])
    corrections = learned(tmp_path, lines)
    assert corrections is not None
    for graph in GRAPHS:
        step = prediction.step_of(graph, [devices.load()[GPU]])
        median = features.estimates(step)[TARGET]
        upper = features.bounds(step, prediction.FORMULA.coefficients)[TARGET]
        found = corrections.of(features.rows_of(step), median=median, upper=upper)
        assert found.median >= median
        assert found.upper >= upper
        assert not found.outside.any()


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_bound_is_below_what_others_teach_without_the_namespace(tmp_path: Path, attack: str) -> None:
    others = [*honest("alice"), *honest("bob")]
    mallory = of_namespace(synthetic.alone(GRAPHS, targets=(TARGET,)), "mallory", ATTACKS[attack])
    without = learned(tmp_path, [line.model_copy(update={"namespace": None}) for line in others])
    found = learned(tmp_path, [*others, *mallory])
    assert without is not None
    assert found is not None
    rows = table_of(tmp_path, list(synthetic.alone(GRAPHS, targets=(TARGET,))))
    formula = {"median": rows.medians[TARGET], "upper": rows.uppers[TARGET]}
    safe, now = without.of(rows.rows, **formula), found.of(rows.rows, **formula)
    # Percentages: what is above 100 is booked as 100.
    assert (now.upper >= np.minimum(safe.upper, 100)).all()
    assert (now.median >= np.minimum(safe.median, 100)).all()


def test_what_two_namespaces_agree_on_lowers_the_bound(tmp_path: Path) -> None:
    lines = [*honest("alice"), *honest("bob"), *honest("carol")]
    corrections = learned(tmp_path, lines)
    assert corrections is not None
    rows = table_of(tmp_path, lines)
    found = corrections.of(rows.rows, median=rows.medians[TARGET], upper=rows.uppers[TARGET])
    assert np.median(found.upper / rows.uppers[TARGET]) < 0.95


NAMES = st.sampled_from([None, *"abcdefgh"])


@given(st.lists(NAMES, min_size=1, max_size=40))
def test_every_namespace_is_of_exactly_one_part_and_believed_lines_are_in_all(names: list[str | None]) -> None:
    parts = guarding.parts(names)
    for name in set(names):
        lines = [place for place, each in enumerate(names) if each == name]
        for seen in (parts.without[:, lines], ~parts.alone[:, lines]):
            assert (seen == seen[:, :1]).all()
        unseen = ~parts.without[:, lines[0]]
        assert np.count_nonzero(unseen) == (0 if name is None else 1)
        assert parts.believed[lines].tolist() == [name is None] * len(lines)
        if name is not None:
            assert parts.alone[:, lines[0]].tolist() == unseen.tolist()


def test_a_line_of_another_namespace_changes_nothing_in_the_part_that_has_not_seen_it() -> None:
    names = ["a", "a", "b", "b", None]
    before, after = guarding.parts(names), guarding.parts([*names, "z", "z"])
    unseen = after.without[~after.without[:, -1]][0, : len(names)]
    assert unseen.tolist() == [True, True, True, True, True]
    assert not any(row.all() for row in before.without)


def test_a_model_of_several_namespaces_is_written_and_read_back(tmp_path: Path) -> None:
    lines = [*honest("alice"), *honest("bob"), *honest("carol")]
    data = synthetic.write(tmp_path / "runs.jsonl", GRAPHS, lines)
    assert called(train, str(data), "--simulated", "--out", str(tmp_path)) == 0
    (corrections,) = store.load(tmp_path).jobs.values()
    assert corrections.supports is not None
    assert (len(corrections.members), len(corrections.supports), corrections.has_formula) == (3, 3, False)


def test_a_tenant_that_says_1_percent_lowers_nobody_elses_booking(tmp_path: Path) -> None:
    lines = of_namespace(synthetic.alone(GRAPHS[:6], targets=(TARGET,)), "mallory", lambda _: 1.0)
    data = synthetic.write(tmp_path / "runs.jsonl", GRAPHS, lines)
    assert called(train, str(data), "--simulated", "--out", str(tmp_path)) == 0
    gpus, model = [devices.load()[GPU]], store.load(tmp_path)
    for graph in GRAPHS:
        before = prediction.predict(graph, gpus, knowledge=store.load().knowledge()).by_gpu[GPU]
        after = prediction.predict(graph, gpus, knowledge=model.knowledge()).by_gpu[GPU]
        assert after.utilization.upper >= before.utilization.upper
        assert not after.out_of_domain or before.out_of_domain
