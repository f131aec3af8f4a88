"""Where a gain is lost: the first error at which a change against another way is no longer a gain. Pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant_simulator.report import intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Errors at which a change, of which less is better, comes to 0; None: at none that was tried.

    Attributes:
        at: of the mean over seeds.
        low: of the upper end of its interval: below, it pays with confidence.
        high: of the lower end: above, it costs with confidence.
    """

    at: float | None
    low: float | None
    high: float | None


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
        at=first(sigmas, [one.mean for one in known]),
        low=first(sigmas, [one.high for one in known]),
        high=first(sigmas, [one.low for one in known]),
    )


def first(sigmas: Sequence[float], values: Sequence[float]) -> float | None:
    """Where values first come to 0 or more, on straight lines between them; None: nowhere."""
    before: tuple[float, float] | None = None
    for sigma, value in zip(sigmas, values, strict=True):
        if value >= 0:
            if before is None:
                return sigma
            from_sigma, from_value = before
            return from_sigma + (sigma - from_sigma) * -from_value / (value - from_value)
        before = sigma, value
    return None
