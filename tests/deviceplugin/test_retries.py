"""An agent's works are tried again, whatever ends them."""

import logging
import random

import pytest

from cotenant_api import errors
from cotenant_deviceplugin import retry
from deviceplugin import fakes


class _Clock(fakes.FakeClock):
    """Nobody waits."""

    async def sleep(self, _seconds: float) -> None:
        """Return at once."""


@pytest.mark.parametrize("error", [errors.TemporaryError("x", delay_seconds=0), ValueError("x"), RecursionError("x")])
async def test_a_work_that_fails_is_tried_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []

    async def work() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise error
        return "done"

    made = retry.Retry(_Clock(), random.Random(1), logging.getLogger("test"))  # noqa: S311
    assert await made.until_done("the work", work) == "done"
    assert not made.failing("the work")
    assert "the work: " in caplog.text
