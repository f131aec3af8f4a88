"""What one case in a hundred exceeds. Pure."""

import math
from collections.abc import Sequence
from typing import Final

_PERCENT: Final = 99


def percentile(values: Sequence[float]) -> float:
    """Return the 99th of rising values, by nearest rank; 0 of nothing."""
    return values[math.ceil(len(values) * _PERCENT / 100) - 1] if values else 0.0
