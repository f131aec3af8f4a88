"""The model that ships is the one that `make model` trains from the repository."""

import numpy as np

from cotenant_predictor.datasets import gavel
from cotenant_predictor.datasets import kernels as measured
from cotenant_predictor.evaluation import metrics
from cotenant_predictor.models import store
from cotenant_predictor.training import kernels, run

REMEDY = "run `make model` and commit the model with what changed"


def test_pairs_are_predicted_as_by_a_model_that_is_trained_now() -> None:
    trained = run.learn("default-1", run.Data(sets=("gavel",)))
    assert store.load().learned["colocation"] == trained.learned["colocation"], REMEDY
    assert store.load().colocation.pools.keys() == trained.colocation.pools.keys(), REMEDY
    tenants = gavel.load().tenants()
    for mechanism in trained.colocation.pools:
        theirs, ours = (model.colocation.predict(tenants, mechanism) for model in (store.load(), trained))
        assert np.allclose(theirs.speed, ours.speed, atol=1e-3, equal_nan=True), REMEDY


def test_kernels_are_those_that_ship_and_predicted_as_well_as_is_claimed() -> None:
    model = store.load()
    assert model.kernels is not None
    for name, rows in measured.load().items():
        assert model.learned["kernels"][name] == {"rows": len(rows.seconds), "gpuModels": len(rows.devices)}, REMEDY
        shapes, chips = kernels.unpacked(name, rows.matrix()[::29])
        predicted = model.kernels.families[name].benchmark_seconds(shapes, chips)
        assert metrics.mape(rows.seconds[::29], predicted) < 0.22, REMEDY


def test_nothing_is_claimed_of_single_jobs_as_long_as_none_was_measured() -> None:
    model = store.load()
    assert bool(model.jobs) == ("jobs" in model.learned)
