"""Jobs that have waited too long and are expected to start nowhere keep nobody behind them waiting for ever."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_extender.queue import forecast, planning
from extender import builders
from extender.builders import NOW

SECONDS_A_FORECAST = 0.06
TURN_SECONDS = 0.025
"""Of a pass, until others of the event loop are to get theirs."""


@pytest.mark.parametrize("hopeless", [50, 500])
def test_a_job_behind_any_number_of_hopeless_ones_is_placed(monkeypatch: pytest.MonkeyPatch, hopeless: int) -> None:
    """Each is looked at once before it; looks that follow come when all were tried."""
    source = builders.cluster(nodes=2, gpus=2)
    for number in range(3):
        gpu = builders.gpu(f"n{number // 2}", number % 2)
        service = builders.bound(f"s{number}", 100, f"n{number // 2}", gpu, phase="Running", restartPolicy="Always")
        builders.put(source, service)
    shared = builders.gpu("n1", 1)
    beside = builders.bound("s3", 60, "n1", shared, namespace="other", phase="Running", restartPolicy="Always")
    builders.put(source, beside)
    for number in range(hopeless):
        notes = {names.GPU_MEMORY: f"{1000 + number}Mi"}
        builders.put(source, builders.pod(f"h{number}", 100, created=NOW - 4000 - number, annotations=notes))
    builders.put(source, builders.pod("honest", 30, created=NOW - 3900, namespace="other"))
    spent, looks, real = [0.0], [0], forecast.soonest

    def slow(*arguments: Any, **named: Any) -> forecast.Place | None:
        spent[0] += SECONDS_A_FORECAST
        looks[0] += 1
        return real(*arguments, **named)

    monkeypatch.setattr(forecast, "soonest", slow)
    queue, now, placed, policy = planning.Queue(), NOW, False, source.policy
    assert policy is not None
    while not placed and now < NOW + 2 * hopeless * SECONDS_A_FORECAST:
        spent[0] = 0.0
        plan = queue.plan(source, policy, now=now, late=lambda part: spent[0] > part * TURN_SECONDS)
        placed = any(lift.record.name == "honest" and lift.earmark for lift in plan.lifts)
        now += spent[0] + 0.05
    assert placed
    assert looks[0] <= hopeless + 1
