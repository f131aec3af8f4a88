"""When a pause is over, by clocks that may be set. Pure."""

from datetime import datetime, timedelta


def due(since: datetime, seconds: float, now: datetime) -> datetime | None:
    """Return when a pause after something is over; None: it is.

    Another program may have written `since`, by a clock of its own, and each clock may be set back. What lies further
    ahead than the pause is long is no reason to wait. So no pause takes more than twice its length.
    """
    length = timedelta(seconds=seconds)
    return since + length if now < since + length and since <= now + length else None
