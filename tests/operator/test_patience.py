"""What has to be done in the end is tried until the API server lets it be done."""

import pytest

from cotenant_api import errors
from cotenant_operator.kube import api
from cotenant_operator.loop import patience


async def pauses(*ends: Exception) -> list[float]:
    """How long is paused where the work ends in these ways, one after another, and then well."""
    left, found = list(ends), []

    async def work() -> None:
        if left:
            raise left.pop(0)

    async def pause(seconds: float) -> None:
        found.append(seconds)

    await patience.persist(work, what="working", retry_seconds=7.0, pause=pause)
    return found


async def test_what_goes_well_is_done_once() -> None:
    assert await pauses() == []


@pytest.mark.parametrize(
    "end", [api.ForbiddenError("no"), api.NotFoundError("not yet"), errors.TemporaryError("lost", delay_seconds=1.0)]
)
async def test_what_is_refused_or_gets_no_answer_is_tried_until_it_goes_well(end: Exception) -> None:
    assert await pauses(end, end) == [7.0, 7.0]


async def test_a_fault_of_our_own_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="a fault"):
        await pauses(ValueError("a fault"))
