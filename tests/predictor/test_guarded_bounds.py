"""How far one namespace alone moves what is predicted for others, down and up, whatever it reports."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant_api.graph import Graph
from cotenant_api.measurement import Measurement
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.commands import train
from cotenant_predictor.datasets import measurements
from cotenant_predictor.jobs import features, prediction
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.models import store
from cotenant_predictor.training import guarding, run, table
from cotenant_predictor.training.table import Table
from cotenant_predictor.trees import Array
from predictor_kit import synthetic
from predictor_kit.commands import called

pytestmark = pytest.mark.usefixtures("few_trees")

TARGET = "utilization"
GPU = GPUModel("NVIDIA-H200")
GRAPHS = synthetic.graphs(8, scales=(1, 2))
HOSTILE = "mallory"


def of_namespace(lines: Iterable[Measurement], namespace: str | None, factor: float = 1.0) -> list[Measurement]:
    """The lines as those of a namespace whose jobs use so many times what is expected."""
    return [
        line.model_copy(
            update={
                "namespace": namespace,
                "id": f"{namespace}-{place}",
                "values": line.values.model_copy(
                    update={"utilization": min(100.0, factor * (line.values.utilization or 0))}
                ),
            }
        )
        for place, line in enumerate(lines)
    ]


def alone(graphs: list[Graph], namespace: str | None, factor: float = 1.0) -> list[Measurement]:
    return of_namespace(synthetic.alone(graphs, targets=(TARGET,)), namespace, factor)


def table_of(lines: list[Measurement]) -> Table:
    known = {graph.digest: graph for graph in GRAPHS}
    return table.of(measurements.Measurements(records=tuple(lines), graphs=known))


def learned(lines: list[Measurement]) -> Guarded | None:
    return run.guarded(table_of(lines), TARGET, np.arange(len(lines)))


# What follows of the formula alone, whatever the corrections are.


def constant(median: float, width: float, *, outside: bool) -> Residual:
    """A correction that says the same of every row, or that every row is outside."""
    flat = {"slope": 0.0, "trust_near": 0.0, "trust_far": 0.0, "near": 0.0, "far": 1.0}
    one = np.ones(1)
    return Residual(
        physics_column=0, offset=np.log1p(median), trees=None, center=0 * one, scale=one, reference=one[:, None],
        outside=-1.0 if outside else 1e9, width_near=width, width_far=width, **flat,
    )  # fmt: skip


VALUES = st.floats(0, 1e6)
CORRECTIONS = st.builds(constant, VALUES, st.floats(0, 10), outside=st.booleans())


def said(correction: Residual, formula: Array) -> Array:
    """Median and bound; the formula's where it does not know the row."""
    row = np.zeros((1, 1))
    if correction.is_outside(correction.distance(row))[0]:
        return formula
    return np.array([correction.median(row)[0], correction.upper(row)[0]])


@given(st.lists(CORRECTIONS, min_size=2, max_size=3), st.data(), VALUES, st.floats(1, 3))
def test_one_part_alone_moves_a_value_no_further_than_the_others_and_the_formula_allow(
    clean: list[Residual], data: st.DataObject, median: float, widening: float
) -> None:
    unseen, supports = clean[0], clean[1:]
    poisoned = [data.draw(CORRECTIONS) for _ in supports]
    guarded = Guarded(members=(unseen, *poisoned), supports=(*supports, data.draw(CORRECTIONS)))
    formula = np.array([median, widening * median])
    found = guarded.of(np.zeros((1, 1)), median=formula[:1], upper=formula[1:])
    values = np.array([found.median[0], found.upper[0]])
    others = np.sort([said(each, formula) for each in supports], axis=0)
    borne_out = others[-2] if len(others) > 1 else formula
    assert (values >= np.minimum(said(unseen, formula), np.maximum(formula, borne_out)) * (1 - 1e-9)).all()
    assert (values <= np.maximum(formula, others[-1]) * (1 + 1e-9)).all()
    assert values[0] <= values[1]


@given(st.lists(CORRECTIONS, min_size=2, max_size=3), VALUES)
def test_a_row_that_any_correction_knows_is_in_the_domain(members: list[Residual], median: float) -> None:
    guarded = Guarded(members=tuple(members), supports=())
    formula = {"median": np.array([median]), "upper": np.array([median])}
    knows = any(not member.is_outside(member.distance(np.zeros((1, 1))))[0] for member in members)
    assert bool(guarded.of(np.zeros((1, 1)), **formula).outside[0]) is not knows


# The same of what is really learned.


@st.composite
def hostile_lines(draw: st.DrawFn) -> list[Measurement]:
    """Lines that the format lets a namespace have: any graph, GPU model, utilization and name of its network."""
    found = []
    for place in range(draw(st.integers(1, 20))):
        graph = draw(st.sampled_from(GRAPHS))
        value = draw(st.one_of(st.just(0.0), st.just(100.0), st.floats(0, 100)))
        line = synthetic.line(graph, draw(st.sampled_from(synthetic.GPU_MODELS)), {TARGET: value}, repeat=place)
        group = draw(st.sampled_from(["its-own", synthetic.group_of(graph)]))
        found.append(line.model_copy(update={"namespace": HOSTILE, "id": f"{HOSTILE}-{place}", "group": group}))
    return found


def values_of(corrections: Guarded | None, rows: Table) -> Array:
    """Medians and bounds, at most 100, shape (2, n_rows); the formula's where nothing could be learned of a row."""
    median, upper = rows.medians[TARGET], rows.uppers[TARGET]
    formula: Array = np.stack([median, upper])
    if corrections is None:
        return formula
    found = corrections.of(rows.rows, median=median, upper=upper)
    values: Array = np.where(found.outside, formula, np.stack([found.median, found.upper]))
    return np.minimum(values, 100.0)


def believed(lines: list[Measurement], rows: Table) -> Array:
    """What these lines alone teach, of whichever namespace they are."""
    enough = len(lines) >= run.FEWEST_ROWS
    as_believed = [line.model_copy(update={"namespace": None}) for line in lines]
    return values_of(learned(as_believed) if enough else None, rows)


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 16]), st.floats(0.3, 3)), min_size=1, max_size=4),
    hostile_lines(),
    st.sampled_from(["a", "z"]),
)
def test_one_hostile_namespace_among_honest_ones_neither_lowers_nor_raises_further(
    honest: list[tuple[int, float]], hostile: list[Measurement], prefix: str
) -> None:
    own = f"{prefix}-{HOSTILE}"
    hostile = [line.model_copy(update={"namespace": own}) for line in hostile]
    lines = [
        line
        for place, (count, factor) in enumerate(honest)
        for line in alone(GRAPHS[:count], f"honest-{place}", factor)
    ]
    rows = table_of(alone(GRAPHS, None))
    formula = values_of(None, rows)
    now = values_of(learned([*lines, *hostile]), rows)
    parts = guarding.parts([line.namespace for line in [*lines, *hostile]])
    is_its = parts.alone[:, -1]
    unseen = believed([line for line, seen in zip(lines, parts.without[is_its][0], strict=False) if seen], rows)
    supports = [
        believed([line for line, seen in zip(lines, row, strict=False) if seen], rows) for row in parts.alone[~is_its]
    ]
    others = np.sort([formula, *supports], axis=0)
    borne_out = np.sort(supports, axis=0)[-2] if len(supports) > 1 else formula
    assert (now >= np.minimum(unseen, np.maximum(formula, borne_out)) * (1 - 1e-9)).all()
    assert (now <= others[-1] * (1 + 1e-9)).all()


def test_a_namespace_that_reports_100_percent_does_not_close_the_gpus_to_others() -> None:
    honest = [line for name in ("alice", "bob", "carol") for line in alone(GRAPHS[:8], name)]
    rows = table_of(alone(GRAPHS[:8], None))
    raised = values_of(learned([*honest, *alone(GRAPHS[:8], HOSTILE, 1e9)]), rows)
    assert (raised[1] <= rows.uppers[TARGET] * (1 + 1e-9)).all()


def test_what_two_namespaces_measure_above_the_formula_is_booked_though_a_third_denies_it() -> None:
    honest = [line for name in ("alice", "bob") for line in alone(GRAPHS[:8], name, 4.0)]
    rows = table_of(alone(GRAPHS[:8], None))
    denied = values_of(learned([*honest, *alone(GRAPHS[:8], HOSTILE, 0.0)]), rows)
    assert np.median(denied[1] / rows.uppers[TARGET]) > 1.2


def test_of_a_single_namespace_what_is_above_the_formula_is_taken_as_before() -> None:
    rows = table_of(alone(GRAPHS[:8], None))
    raised = values_of(learned(alone(GRAPHS[:8], "alice", 4.0)), rows)
    assert np.median(raised[1] / rows.uppers[TARGET]) > 1.2


# Who measured nothing like a job says nothing of it.

OWN_NETWORKS = {
    "beside eight lines of one network": {"alice": GRAPHS[:8], HOSTILE: GRAPHS[15:] * 4},
    "two namespaces": {"alice": GRAPHS[:8], "bob": GRAPHS[8:]},
    "three namespaces": {"alice": GRAPHS[:8], "bob": GRAPHS[8:12], "carol": GRAPHS[12:]},
}


@pytest.mark.parametrize("case", OWN_NETWORKS)
def test_namespaces_with_networks_of_their_own_keep_their_predictions(tmp_path: Path, case: str) -> None:
    lines = [line for name, graphs in OWN_NETWORKS[case].items() for line in alone(graphs, name)]
    data = synthetic.write(tmp_path / "runs.jsonl", GRAPHS, lines)
    assert called(train, str(data), "--simulated", "--out", str(tmp_path)) == 0
    gpus, model = [devices.load()[GPU]], store.load(tmp_path)
    assert model.jobs
    for graph in GRAPHS:
        before, after = (
            prediction.predict(graph, gpus, knowledge=each.knowledge()).by_gpu[GPU] for each in (store.load(), model)
        )
        assert after.out_of_domain == before.out_of_domain
        assert after.utilization.upper <= before.utilization.upper


def test_a_network_that_one_namespace_alone_measured_is_predicted_by_the_formula() -> None:
    lines = [*alone(GRAPHS[:8], "alice", 0.3), *alone(GRAPHS[8:], "bob")]
    rows = table_of(alone(GRAPHS[:8], None))
    found = values_of(learned(lines), rows)
    assert found[1].tolist() == rows.uppers[TARGET].tolist()


def test_enough_lines_on_purpose_still_say_what_is_unlike_everything() -> None:
    strange = features.rows_of(prediction.step_of(GRAPHS[0], [devices.load()[GPU]])) + 1e3
    formula = {"median": np.ones(1), "upper": np.ones(1)}
    for more in ([], alone(GRAPHS[:8], "alice")):
        corrections = learned([*alone(GRAPHS[:8], None), *more])
        assert corrections is not None
        assert corrections.of(strange, **formula).outside.all()
    corrections = learned([*alone(GRAPHS[:8], "alice"), *alone(GRAPHS[:8], "bob")])
    assert corrections is not None
    found = corrections.of(strange, **formula)
    assert (found.upper.tolist(), found.outside.tolist()) == ([1.0], [False])
