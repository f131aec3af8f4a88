"""When a pause is over, by clocks that may be set. Pure."""

from datetime import datetime, timedelta


def due(since: datetime, seconds: float, now: datetime) -> datetime | None:
    """Return when a pause after something is over; None: it is.

    Another program may have written `since`, by a clock of its own, and each clock may be set back. What lies further
    ahead than the pause is long is no reason to wait. So no pause takes more than twice its length.
    """
    ahead = (since - now).total_seconds()
    return since + timedelta(seconds=seconds) if -seconds < ahead <= seconds else None
