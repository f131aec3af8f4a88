"""What the recordings say is what the programs say now, and the stand-in likewise."""

from mps_kit import session
from mps_kit.place import Place


def test_program_answers_as_it_was_recorded(place: Place) -> None:
    recorded = session.kept(str(place.major))["exchanges"]
    answered = list(session.run(place.program, place.folder))
    assert [(theirs, ours) for theirs, ours in zip(recorded, answered, strict=True) if theirs != ours] == []
