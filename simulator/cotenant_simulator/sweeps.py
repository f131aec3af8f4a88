"""Many runs at once, by joblib: results come in the order asked for, wherever they were computed.

Here in processes; on a dask cluster within `joblib.parallel_config(backend="dask")`. A task is a function that can be
pickled, and its result says nothing of where or when it ran: the same tasks give the same results.
"""

import warnings
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import joblib
from joblib.externals.loky import process_executor

from cotenant_api import errors

Result = TypeVar("Result")


def run(tasks: Sequence[Callable[[], Result]], *, processes: int | None = None) -> Generator[Result, None, None]:
    """Each task's result, in order, as soon as it and all before it are done.

    Who stops listening, or an interrupt, ends the runs that are under way; what has not begun by then never does.

    Args:
        tasks: without arguments; `functools.partial` of a function of a module.
        processes: how many at once; with 1 all run in this one; None: as the joblib configuration in force says.

    Raises:
        PermanentError: a process was ended by others.
    """
    parallel = joblib.Parallel(n_jobs=processes, return_as="generator")
    results = parallel(joblib.delayed(task)() for task in tasks)
    try:
        for result in results:  # noqa: UP028 - `yield from` would hand an early end on, and joblib warns of it
            yield result
    except process_executor.TerminatedWorkerError as error:
        remedy = "as happens where memory runs out: ask for fewer processes at once"
        raise errors.PermanentError(f"a process of {processes} was ended from outside, {remedy}") from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            results.close()
