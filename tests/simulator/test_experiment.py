"""A run by its name."""

import time

import pytest

from cotenant_simulator.openb import experiment, trace
from simulator import kit


def tasks(*seeds: int) -> list[experiment.Task]:
    nodes = tuple(kit.node(f"n{number}", gpus=2) for number in range(4))
    pods = tuple(kit.pod(milli, cpu=1000 + milli) for milli in (230, 470, 470, 810, 1000))
    read = trace.Trace(name="by-hand", nodes=nodes, pods=pods)
    setting = experiment.Setting("FirstFit")
    return [experiment.Task(read=read, setting=setting, seed=seed, clock=time.perf_counter) for seed in seeds]


def test_seconds_are_those_of_the_clock_that_is_given() -> None:
    (task,) = tasks(42)
    ticks = iter((10.0, 12.5))
    made = experiment.Task(read=task.read, setting=task.setting, seed=42, clock=lambda: next(ticks))
    assert experiment.result(made).seconds == 2.5


def test_a_placement_that_there_is_not_is_an_error() -> None:
    (task,) = tasks(42)
    wrong = experiment.Task(read=task.read, setting=experiment.Setting("Best"), seed=42, clock=task.clock)
    with pytest.raises(ValueError, match="Best"):
        experiment.result(wrong)
