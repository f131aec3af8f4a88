"""Many runs at once, by joblib: results come in the order asked for, wherever they were computed.

Here in processes; on a dask cluster within `joblib.parallel_config(backend="dask")`. A task is a function that can be
pickled, and its result says nothing of where or when it ran: the same tasks give the same results.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import joblib

Result = TypeVar("Result")


def run(tasks: Sequence[Callable[[], Result]], *, processes: int | None = None) -> Iterator[Result]:
    """Each task's result, in order, as soon as it and all before it are done.

    Args:
        tasks: without arguments; `functools.partial` of a function of a module.
        processes: how many at once; None: as the joblib configuration in force says.
    """
    parallel = joblib.Parallel(n_jobs=processes, return_as="generator")
    yield from parallel(joblib.delayed(task)() for task in tasks)
