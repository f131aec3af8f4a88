"""Tasks that another process can import."""

import os
import signal

from cotenant_api import errors
from cotenant_simulator.openb import experiment, replay, trace


def squared(number: int) -> int:
    return number * number


def refused(number: int) -> int:
    raise errors.InvalidInputError("--seeds", number, "must be another")


def killed(number: int) -> int:
    """As by a kernel that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def outcome(read: trace.Trace, seed: int) -> replay.Outcome:
    """A whole run of an experiment."""
    task = experiment.Task(read=read, setting=experiment.Setting("FirstFit"), seed=seed, clock=float)
    return experiment.result(task).outcome
