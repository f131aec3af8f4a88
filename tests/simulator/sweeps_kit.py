"""Tasks that another process can import."""

from cotenant_api import errors
from cotenant_simulator.openb import experiment, replay, trace


def squared(number: int) -> int:
    return number * number


def refused(number: int) -> int:
    raise errors.InvalidInputError("--seeds", number, "must be another")


def outcome(read: trace.Trace, seed: int) -> replay.Outcome:
    """A whole run of an experiment."""
    task = experiment.Task(read=read, setting=experiment.Setting("FirstFit"), seed=seed, clock=float)
    return experiment.result(task).outcome
