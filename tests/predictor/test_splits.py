"""Splits: nothing is learned from what is scored, and the same arguments give the same folds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import errors
from cotenant_predictor.evaluation import splits

LABELS = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=60).filter(lambda labels: len(set(labels)) > 1)


@given(LABELS, st.sampled_from(splits.KINDS))
def test_no_row_is_in_both_parts_and_no_part_is_empty(labels: list[str], kind: str) -> None:
    for fold in splits.of_kind(kind, groups=labels, families=labels, gpu_models=labels):
        assert len(fold.train) > 0
        assert len(fold.test) > 0
        assert not set(fold.train) & set(fold.test)


@given(LABELS)
def test_a_held_out_label_is_in_no_training_row_and_each_row_is_held_out_once(labels: list[str]) -> None:
    folds = list(splits.leave_out(labels))
    for fold in folds:
        assert not {labels[row] for row in fold.train} & {labels[row] for row in fold.test}
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(len(labels)))


def test_many_labels_are_held_out_several_at_a_time_but_never_in_part() -> None:
    labels = [f"group {row // 3}" for row in range(300)]
    folds = list(splits.leave_out(labels, max_folds=7))
    assert len(folds) == 7
    assert not any({labels[row] for row in fold.train} & {labels[row] for row in fold.test} for fold in folds)
    assert max(len(fold.test) for fold in folds) - min(len(fold.test) for fold in folds) <= 3


def test_a_fold_of_few_labels_is_named_by_them() -> None:
    assert [fold.name for fold in splits.leave_out(["b", "a", "a"])] == ["a", "b"]


def test_shuffles_keep_a_fifth_for_scoring_and_differ_from_each_other() -> None:
    folds = list(splits.shuffled(50))
    assert {len(fold.test) for fold in folds} == {10}
    assert len({tuple(fold.test) for fold in folds}) == len(folds) == splits.REPEATS


def test_the_seed_alone_decides_the_shuffle() -> None:
    first, again, other = (next(splits.shuffled(40, seed=seed)) for seed in (1, 1, 2))
    assert first.test.tolist() == again.test.tolist() != other.test.tolist()


def test_each_part_of_k_folds_is_scored_once() -> None:
    folds = list(splits.k_fold(23, folds=5))
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(23))


def test_a_pair_with_a_held_out_job_is_in_no_training_row() -> None:
    pairs = [{"a", "b"}, {"b", "c"}, {"c"}, {"a", "c"}]
    folds = {fold.name: fold for fold in splits.leave_out_any(pairs)}
    assert folds["a"].test.tolist() == [0, 3]
    assert folds["a"].train.tolist() == [1, 2]
    assert all(not any(name in pairs[row] for row in fold.train) for name, fold in folds.items())


@pytest.mark.parametrize("kind", splits.KINDS)
def test_a_split_that_cannot_be_made_says_why(kind: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="needs"):
        splits.of_kind(kind, groups=["a"], families=["a"], gpu_models=["a"])


def test_an_unknown_split_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.InvalidInputError, match="leave-gpu-out"):
        splits.of_kind("by-hope", groups=["a"], families=["a"], gpu_models=["a"])


def test_pairs_that_all_share_a_label_cannot_be_split() -> None:
    with pytest.raises(errors.InvalidInputError, match="without a label"):
        list(splits.leave_out_any([{"a"}, {"a"}]))
