"""One fault at one place of a life, so that every place can be tried."""

from collections.abc import Callable

from cotenant_operator import labels
from cotenant_operator.kube import api
from operator_kit.server import Fault


def changes_something(request: api.Request) -> bool:
    """Whether a request is a write."""
    return request.method != "GET"


def decides_something(request: api.Request) -> bool:
    """Whether a request is a write other than a fence, which each process writes once."""
    return changes_something(request) and labels.FENCE not in str(request.body)


class AtWrite:
    """A fault at the n-th write; what a server asks about each request.

    Attributes:
        writes: how many there were.
    """

    def __init__(self, number: int, fault: Fault, *, counts: Callable[[api.Request], bool] = changes_something) -> None:
        self._number, self._fault, self._counts = number, fault, counts
        self.writes = 0

    def __call__(self, request: api.Request) -> Fault | None:
        """The fault of one request, if it has one."""
        if not self._counts(request):
            return None
        self.writes += 1
        return self._fault if self.writes == self._number else None
