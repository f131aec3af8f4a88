"""Which rows a model learns from and which it is scored on: at random, or with a whole group, family or GPU held out.

Pure: rows are positions, the seed is an argument, the same arguments give the same folds. Never looks at a value.
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api import errors

Array: TypeAlias = npt.NDArray[Any]

RANDOM: Final = "random"
LEAVE_GROUP_OUT: Final = "leave-group-out"
LEAVE_FAMILY_OUT: Final = "leave-family-out"
LEAVE_GPU_OUT: Final = "leave-gpu-out"
KINDS: Final = (RANDOM, LEAVE_GROUP_OUT, LEAVE_FAMILY_OUT, LEAVE_GPU_OUT)

TEST_SHARE: Final = 0.2
REPEATS: Final = 10
MAX_FOLDS: Final = 20
"""With more labels than this, labels are held out several at a time: each is still held out once, never in part."""


@dataclasses.dataclass(frozen=True)
class Fold:
    """Positions of the rows to learn from and to score on; both sorted, none in both, neither empty."""

    name: str
    """What is held out, or the number of the shuffle."""
    train: Array
    test: Array


def shuffled(n_rows: int, *, seed: int = 0, repeats: int = REPEATS, test_share: float = TEST_SHARE) -> Iterator[Fold]:
    """`repeats` independent shuffles, each split into a training and a test part: a row may be tested often, or never.

    Raises:
        InvalidInputError: fewer than two rows.
    """
    _require(n_rows >= 2, RANDOM, n_rows, "needs at least 2 rows")
    n_test = min(n_rows - 1, max(1, round(n_rows * test_share)))
    for repeat in range(repeats):
        order = np.random.default_rng((seed, repeat)).permutation(n_rows)
        yield Fold(f"shuffle {repeat}", np.sort(order[n_test:]), np.sort(order[:n_test]))


def k_fold(n_rows: int, *, folds: int = 5, seed: int = 0) -> Iterator[Fold]:
    """`folds` parts of one shuffle, each tested once.

    Raises:
        InvalidInputError: fewer rows than two.
    """
    _require(n_rows >= 2, RANDOM, n_rows, "needs at least 2 rows")
    part = np.empty(n_rows, dtype=np.intp)
    part[np.random.default_rng(seed).permutation(n_rows)] = np.arange(n_rows) % min(folds, n_rows)
    yield from _parts(part, [f"part {index}" for index in range(part.max() + 1)])


def leave_out(labels: Sequence[str], *, kind: str = LEAVE_GROUP_OUT, max_folds: int = MAX_FOLDS) -> Iterator[Fold]:
    """Each label held out once, whole; the largest labels first.

    Raises:
        InvalidInputError: all rows have one label.
    """
    names, inverse, counts = np.unique(np.asarray(labels, dtype=str), return_inverse=True, return_counts=True)
    _require(len(names) >= 2, kind, sorted(set(labels)), "needs rows of at least 2 labels, so that one can be held out")
    bins = _dealt(counts, min(max_folds, len(names)))
    held = [
        " ".join(names[bins == index]) if (bins == index).sum() <= 3 else f"part {index}"
        for index in range(bins.max() + 1)
    ]
    yield from _parts(bins[inverse], held)


def leave_out_any(label_sets: Sequence[Collection[str]], *, kind: str = LEAVE_GROUP_OUT) -> Iterator[Fold]:
    """For rows with several labels (jobs together): scored on rows with a label, learned from rows without it.

    A row is tested once per label that it has.

    Raises:
        InvalidInputError: no label can be held out, because every row has it.
    """
    found = 0
    for name in sorted(set().union(*label_sets)):
        holds = np.array([name in labels for labels in label_sets], dtype=np.bool_)
        if not holds.all():
            found += 1
            yield Fold(name, np.flatnonzero(~holds), np.flatnonzero(holds))
    _require(
        found > 0, kind, sorted(set().union(*label_sets)), "needs rows without a label, so that it can be held out"
    )


MANY_ROWS: Final = 1000
"""From here on fewer shuffles, and fewer folds of whole labels, say as much in a tenth of the time."""
REPEATS_OF_MANY: Final = 3
MAX_FOLDS_OF_MANY: Final = 5


def of_kind(
    kind: str, *, groups: Sequence[str], families: Sequence[str], gpu_models: Sequence[str], seed: int = 0
) -> tuple[Fold, ...]:
    """Return the folds of one of `KINDS` over rows with these labels.

    Raises:
        InvalidInputError: no such kind, or too few rows or labels for it.
    """
    many = len(groups) >= MANY_ROWS
    if kind == RANDOM:
        return tuple(shuffled(len(groups), seed=seed, repeats=REPEATS_OF_MANY if many else REPEATS))
    labels = {LEAVE_GROUP_OUT: groups, LEAVE_FAMILY_OUT: families, LEAVE_GPU_OUT: gpu_models}
    _require(kind in labels, "split", kind, f"must be one of {', '.join(KINDS)}")
    return tuple(leave_out(labels[kind], kind=kind, max_folds=MAX_FOLDS_OF_MANY if many else MAX_FOLDS))


def _dealt(counts: Array, n_bins: int) -> Array:
    """Return the bin of each label: the largest first, each into the bin with the fewest rows."""
    bins, load = np.empty(len(counts), dtype=np.intp), np.zeros(n_bins)
    for label in np.argsort(-counts, kind="stable"):
        bins[label] = int(load.argmin())
        load[bins[label]] += counts[label]
    return bins


def _parts(part: Array, names: Sequence[str]) -> Iterator[Fold]:
    for index, name in enumerate(names):
        yield Fold(name, np.flatnonzero(part != index), np.flatnonzero(part == index))


def _require(holds: bool, field: str, value: object, remedy: str) -> None:
    if not holds:
        raise errors.InvalidInputError(field, value, remedy)
