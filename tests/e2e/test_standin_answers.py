"""The stand-in's control program answers as NVIDIA's of each driver did when it was recorded."""

from typing import Any

import pytest

from mps_kit import exchanges, programs, session, standin
from node_kit import quick

LEAST = 60
"""Exchanges of a driver."""


@pytest.mark.parametrize("driver", programs.DRIVERS)
def test_stand_in_answers_as_nvidias_program_of(driver: str) -> None:
    recorded = session.kept(driver)
    with quick.folder() as folder:
        stand_in = standin.StandIn(folder=folder, version=recorded["driver"], arguments=tuple(recorded["arguments"]))
        answered = list(session.run(stand_in, folder))
    assert len(recorded["exchanges"]) >= LEAST
    differences = [
        (theirs, ours) for theirs, ours in zip(recorded["exchanges"], answered, strict=True) if theirs != ours
    ]
    assert differences == []


def test_recordings_hold_every_state_and_no_pid() -> None:
    recorded: list[dict[str, Any]] = session.kept("580")["exchanges"]
    assert {each["state"] for each in recorded} == {"start", *(state.value for state in exchanges.State)}
    listed = {each["output"] for each in recorded if each.get("commands") == ["get_server_list"] and each["output"]}
    assert listed == {"SERVER\n", "Cannot find MPS control daemon process\n"}
