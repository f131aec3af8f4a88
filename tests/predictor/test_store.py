"""The model's file: whole, of this version, unchanged, or refused with the remedy."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.models import parts, store
from cotenant_predictor.models.store import Model


def residual(columns: int = len(features.NAMES)) -> Guarded:
    from cotenant_predictor.training.jobs import JobRegressor

    random = np.random.default_rng(0)
    rows = random.normal(size=(40, columns))
    learned = JobRegressor(n_estimators=5).fit(rows, np.exp(rows[:, 0]), groups=np.arange(40) % 5).model_
    return Guarded(members=(learned,))


def plain(value: Any) -> Any:
    """With lists for arrays."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(name="test-1", learned={"lines": 40}, jobs={"utilization": residual()})


def test_a_model_is_read_back_as_it_was_written(tmp_path: Path, model: Model) -> None:
    written = store.write(tmp_path / "new" / store.FILE, model)
    read = store.load(tmp_path / "new")
    rows = np.random.default_rng(1).normal(size=(9, len(features.NAMES)))
    assert read.reference == written.reference == f"test-1@{written.digest}"
    assert read.learned == {"lines": 40}
    formula = {"median": np.ones(9), "upper": np.ones(9)}
    medians = [of.jobs["utilization"].of(rows, **formula).median.tolist() for of in (read, model)]
    assert medians[0] == medians[1]
    assert read.to_bytes() == (tmp_path / "new" / store.FILE).read_bytes()


def test_nothing_is_left_half_written(tmp_path: Path, model: Model) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(errors.InvalidInputError, match="cannot be written"):
        store.write(tmp_path / "file" / store.FILE, model)
    store.write(tmp_path / store.FILE, model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", store.FILE]


def test_a_file_that_was_cut_anywhere_is_refused(model: Model) -> None:
    data = model.to_bytes()
    for length in range(0, len(data) - 1, len(data) // 40):
        with pytest.raises(errors.InvalidInputError, match=r"cotenant train"):
            store.parse(data[:length], source="m")


def test_a_file_that_was_changed_is_refused(model: Model) -> None:
    changed = model.to_bytes().replace(b'"test-1"', b'"test-2"')
    with pytest.raises(errors.InvalidInputError, match=r"m\.digest.*another digest.*cotenant train"):
        store.parse(changed, source="m")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_a_file_of_another_version_is_refused(model: Model, version: object) -> None:
    value = json.loads(model.to_bytes()) | {"v": version}
    with pytest.raises(errors.UnsupportedVersionError, match=r"m\.v.*version 1.*train the model again"):
        store.parse(json.dumps(value).encode(), source="m")


@pytest.mark.parametrize("data", [b"", b"[]", b"\x80\x04pickle", b"null", b"{" * 100_000])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidInputError, match="model file"):
        store.parse(data, source="m")


def test_a_missing_model_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="cotenant train --out"):
        store.load(tmp_path)


def test_a_correction_of_other_features_is_refused() -> None:
    other = Model(name="old-1", jobs={"utilization": residual(columns=3)})
    with pytest.raises(errors.InvalidInputError, match=r"m\.parts.*3 features"):
        store.parse(other.to_bytes(), source="m")


def test_a_correction_of_an_unknown_target_is_refused() -> None:
    other = Model(name="old-1", jobs={"happiness": residual()})
    with pytest.raises(errors.InvalidInputError, match="happiness is no target"):
        store.parse(other.to_bytes(), source="m")


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 100,
        list(range(300)),
        [-70_000] * 50,
        [0.1] * 50,
        [0.5] * 50,
        [[1.25, -2.0]] * 40,
        ["a"] * 50,
        [True] * 50,
        [1.5],
        [],
        [[1.0], [1.0, 2.0]] * 40,
        [[[1.0] * 40, [2.0] * 41]] * 2,
        [[[1.0, 2.5]] * 20] * 3,
        [[]] * 40,
    ],
)
def test_packing_keeps_every_number(values: list[object]) -> None:
    packed = parts.packed({"inside": [values]})
    assert plain(parts.unpacked(json.loads(json.dumps(packed)))) == {"inside": [values]}


def test_what_is_not_finite_is_not_stored() -> None:
    with pytest.raises(ValueError, match="not finite"):
        parts.packed([float("nan")] * 50)


@pytest.mark.parametrize("damaged", [{"type": "O"}, {"array": "%%"}, {"shape": [7]}, {"array": "AA"}])
def test_a_damaged_array_is_refused(damaged: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parts.unpacked(parts.packed([1.5] * 50) | damaged)


def test_the_default_model_loads_in_under_200_milliseconds() -> None:
    data = Path(store.__file__).with_name(store.DEFAULT).read_bytes()
    start = time.process_time()
    store.parse(data, source="default")
    assert time.process_time() - start < 0.2


def test_loading_a_model_needs_no_scikit_learn() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None; from cotenant_predictor.models import store;"
        " print(store.load().reference)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "@sha256:" in done.stdout


def test_the_default_model_is_named_and_not_simulated() -> None:
    model = store.load()
    assert model.reference.startswith("default-1@sha256:")
    assert not model.simulated
