"""What the environment asks for."""

from pathlib import Path

import pytest

from cotenant_runtime import settings
from cotenant_runtime.gate import Limits
from cotenant_runtime.settings import Role, SettingsError

TRAINING = {"COTENANT_SPACE_TIME": "Training", "COTENANT_SPACE_TIME_SEGMENT": "/run/segment"}


def test_without_the_variable_nothing_is_asked_for() -> None:
    assert settings.read({"COTENANT_SPACE_TIME_SEGMENT": "/run/segment"}) is None


def test_what_is_not_set_has_the_documented_default() -> None:
    found = settings.read(TRAINING)
    assert found is not None
    assert (found.role, found.segment, found.slot, found.cache) == (Role.TRAINING, Path("/run/segment"), None, None)
    assert found.limits == Limits()


def test_every_bound_can_be_set() -> None:
    found = settings.read(
        {
            **TRAINING,
            "COTENANT_SPACE_TIME_SLOT": "2",
            "COTENANT_SPACE_TIME_DELAY_MILLISECONDS": "8",
            "COTENANT_SPACE_TIME_LONGEST_WAIT_MILLISECONDS": "200",
            "COTENANT_SPACE_TIME_LEAST_PERCENT": "25",
            "COTENANT_SPACE_TIME_GRAPH": "/run/graph.json",
            "COTENANT_SPACE_TIME_CACHE": "/var/cache",
        }
    )
    assert found is not None
    assert (found.slot, found.graph, found.cache) == (2, Path("/run/graph.json"), Path("/var/cache"))
    limits = found.limits
    assert (limits.delay_ns, limits.longest_wait_ns, limits.least_fraction) == (8_000_000, 200_000_000, 0.25)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("COTENANT_SPACE_TIME", "both", "must be Training or Inference"),
        ("COTENANT_SPACE_TIME_SEGMENT", "", "must name the segment"),
        ("COTENANT_SPACE_TIME_SLOT", "-1", "whole number from 0 to"),
        ("COTENANT_SPACE_TIME_LEAST_PERCENT", "0", "whole number from 1 to 100"),
        ("COTENANT_SPACE_TIME_DELAY_MILLISECONDS", "5 ms", "whole number from 1 to 10000"),
        ("COTENANT_SPACE_TIME_LONGEST_WAIT_MILLISECONDS", "٣", "whole number from 1 to 60000"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_the_remedy(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}.*{message}"):
        settings.read({**TRAINING, name: value})
