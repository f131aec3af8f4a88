"""A step beside a block: how often it is done, and what becomes of what it raises."""

import threading

import pytest

from cotenant_e2e.background import Background

SECONDS = 20


def test_step_is_done_until_the_block_ends() -> None:
    done, count = threading.Event(), 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == 3:
            done.set()

    with Background(step, every_seconds=0):
        assert done.wait(SECONDS)
    assert count >= 3


def test_what_a_step_raises_the_end_of_the_block_raises() -> None:
    failed = threading.Event()

    def step() -> None:
        failed.set()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), Background(step, every_seconds=0):
        assert failed.wait(SECONDS)


def test_what_the_block_raises_comes_first() -> None:
    def step() -> None:
        raise ValueError("broken")

    def block() -> None:
        with Background(step, every_seconds=0) as running:
            running._thread.join(SECONDS)
            raise KeyError

    with pytest.raises(KeyError):
        block()
