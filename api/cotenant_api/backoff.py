"""How long to wait after what went wrong again: twice as long each time. Pure."""

_ENOUGH = 64
"""So often doubled any pause is longer than its bound; a power of a larger number is no float."""


def doubled(first: float, times: int, *, most: float) -> float:
    """Return a pause that was doubled so often, `most` at most, in the unit of both."""
    return min(first * 2.0 ** min(times, _ENOUGH), most)
