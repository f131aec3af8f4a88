"""Where a gain is lost: errors at which a change against another way is no longer a gain. Pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant_simulator.report import intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Errors at which a change, of which less is better, comes to 0; None: at none that was tried.

    Attributes:
        at: from there on the mean over seeds is a loss, up to the largest error; before, it may be one by chance.
        sure: up to there the whole interval is a gain; the first error where it is not even there.
        lost: from there on the whole interval is a loss.
    """

    at: float | None
    sure: float | None
    lost: float | None


def of(sigmas: Sequence[float], changes: Sequence[Sequence[float]]) -> Crossing:
    """Where a change crosses 0 from below.

    Args:
        sigmas: ascending.
        changes: by sigma, then by seed; negative is a gain.

    Raises:
        ValueError: a sigma without any change.
    """
    found = [intervals.mean(values) for values in changes]
    known = [one for one in found if one is not None]
    if len(known) < len(sigmas):
        raise ValueError("every sigma needs a change")
    return Crossing(
        at=last(sigmas, [one.mean for one in known]),
        sure=first(sigmas, [one.high for one in known]),
        lost=last(sigmas, [one.low for one in known]),
    )


def first(sigmas: Sequence[float], values: Sequence[float]) -> float | None:
    """Where values first come to 0 or more, on straight lines between them; None: nowhere."""
    for place, value in enumerate(values):
        if value >= 0:
            return _between(sigmas, values, place)
    return None


def last(sigmas: Sequence[float], values: Sequence[float]) -> float | None:
    """From where on values are 0 or more to the end; None: the last one is less."""
    place = len(values)
    while place and values[place - 1] >= 0:
        place -= 1
    return None if place == len(values) else _between(sigmas, values, place)


def _between(sigmas: Sequence[float], values: Sequence[float], place: int) -> float:
    """Where the line from the value before, which is below 0, to this one comes to 0."""
    if not place:
        return sigmas[0]
    before, after = values[place - 1], values[place]
    return sigmas[place - 1] + (sigmas[place] - sigmas[place - 1]) * -before / (after - before)
