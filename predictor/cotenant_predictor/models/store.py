"""A model as a file: JSON in one piece, with its version and its digest.

    {"v": 1, "name": "default-1", "digest": "sha256:..", "learned": {..}, "parts": {"jobs": {..}, ..}}

The digest is the SHA-256 of the file's bytes with an empty digest in its place: a file that was changed, cut or
reformatted is refused. Reading runs no code and imports no scikit-learn.
"""

import dataclasses
import functools
import hashlib
import importlib.resources
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from cotenant_api import documents, errors, files
from cotenant_predictor.colocation.speeds import SpeedModel
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.jobs.prediction import Knowledge
from cotenant_predictor.jobs.rates import Rates
from cotenant_predictor.kernels.model import KernelModel
from cotenant_predictor.models import parts

VERSION: Final = 1
FILE: Final = "model.json"
DEFAULT: Final = "default.json"
"""The model that ships, beside this module."""

_NO_DIGEST: Final = '"digest":""'
_REMEDY: Final = "write it again with `cotenant train`, or copy it again from where it was whole"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """What was learned. Parts that were not learned are empty."""

    name: str
    digest: str = ""
    """`sha256:..`; empty until it was written."""
    learned: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """From what: data sets, rows, whether they were simulated. Says nothing that changes between two trainings."""
    kernels: KernelModel | None = None
    """Times of single operators."""
    rates: Rates | None = None
    """Shares of a GPU's peaks that operators of whole models reach."""
    jobs: Mapping[str, Guarded] = dataclasses.field(default_factory=dict)
    """Corrections of single jobs, by target."""
    colocation: SpeedModel = dataclasses.field(default_factory=SpeedModel)
    """Speeds of jobs together."""

    @property
    def reference(self) -> str:
        """`name@sha256:..`, as a prediction names it; with `simulated-` before it where simulated lines taught it."""
        return f"{'simulated-' if self.simulated else ''}{self.name}@{self.digest}"

    @property
    def simulated(self) -> bool:
        """Whether anything in it was learned from simulated lines."""
        return bool(self.learned.get("simulated", False))

    def knowledge(self) -> Knowledge:
        """Return what predictions of single jobs rest on with this model."""
        return dataclasses.replace(self.kernel_knowledge(), residuals=types.MappingProxyType(dict(self.jobs)))

    def kernel_knowledge(self) -> Knowledge:
        """Return the same without corrections: what those are learned on."""
        formula = constants.FORMULA_1
        coefficients = formula if self.rates is None else dataclasses.replace(formula, rates=self.rates)
        return Knowledge(name=self.reference, coefficients=coefficients, kernels=self.kernels)

    def sealed(self) -> Self:
        """Return the same with its digest."""
        return dataclasses.replace(self, digest=_digest(self._text()))

    def to_bytes(self) -> bytes:
        """Return the file; the same bytes for the same model."""
        text = self._text()
        return text.replace(_NO_DIGEST, f'"digest":"{_digest(text)}"', 1).encode()

    def _text(self) -> str:
        value = {
            "v": VERSION,
            "name": self.name,
            "digest": "",
            "learned": dict(self.learned),
            "parts": parts.packed(self._parts()),
        }
        return documents.canonical(value) + "\n"

    def _parts(self) -> dict[str, Any]:
        learned: dict[str, Any] = {}
        if self.kernels is not None:
            learned["kernels"] = self.kernels.to_state()
        if self.rates is not None:
            learned["rates"] = self.rates.to_state()
        if self.jobs:
            learned["jobs"] = parts.residuals_state(self.jobs)
        if self.colocation.pools:
            learned["colocation"] = self.colocation.to_state()
        return learned


def load(path: Path | str | None = None) -> Model:
    """Read a model: a file, a folder that holds `model.json`, or the one that ships.

    Raises:
        UnsupportedVersionError: the file is of another version.
        InvalidInputError: it is missing, cut, changed, or holds a part that is not valid.
    """
    if path is None:
        return _shipped()
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        remedy = f"cannot be read: {error.strerror}; give the folder that `cotenant train --out` wrote"
        raise errors.InvalidInputError("--model", str(path), remedy) from error
    return parse(data, source=str(file))


def parse(data: bytes, *, source: str) -> Model:
    """Return a model from the bytes of its file; raises as `load`."""
    value = _decoded(data, source=source)
    version = value.get("v")
    if version != VERSION:
        remedy = f"this release reads models of version {VERSION}: train the model again with this release"
        raise errors.UnsupportedVersionError(f"{source}.v", version, remedy)
    claimed = value.get("digest")
    text = data.decode().replace(f'"digest":"{claimed}"', _NO_DIGEST, 1)
    if claimed != _digest(text):
        raise errors.InvalidInputError(f"{source}.digest", claimed, f"the content has another digest: {_REMEDY}")
    try:
        state = parts.unpacked(value["parts"])
        return Model(
            name=str(value["name"]),
            digest=str(claimed),
            learned=types.MappingProxyType(dict(value["learned"])),
            kernels=KernelModel.from_state(state["kernels"]) if "kernels" in state else None,
            rates=Rates.from_state(state["rates"]) if "rates" in state else None,
            jobs=types.MappingProxyType(parts.residuals_of(state.get("jobs", {}))),
            colocation=SpeedModel.from_state(state.get("colocation", {"pools": {}})),
        )
    except (KeyError, ValueError, TypeError) as error:
        remedy = f"does not hold together ({type(error).__name__}: {error}): train the model again with this release"
        raise errors.InvalidInputError(f"{source}.parts", claimed, remedy) from error


def write(path: Path, model: Model) -> Model:
    """Write a model's file whole or not at all (write, fsync, rename); the model with its digest.

    Raises:
        InvalidInputError: the folder cannot be written to.
    """
    files.replace(path, model.to_bytes(), field="--out")
    return model.sealed()


@functools.cache
def _shipped() -> Model:
    return parse(importlib.resources.files(__package__).joinpath(DEFAULT).read_bytes(), source=DEFAULT)


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _decoded(data: bytes, *, source: str) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError(source, data[:32], f"is no whole model file: {_REMEDY}") from error
    if not isinstance(value, dict):
        raise errors.InvalidInputError(source, data[:32], f"is no model file: {_REMEDY}")
    return value
