"""What KACE published: "Predicting workload colocations under GPU spatial sharing", on a V100 with 21 workloads."""

from typing import Final

SHARE_PERCENT: Final = 90.0
"""Of the oracle's throughput sum, mean over targets; approximate, as stated."""
WINS: Final = 13
"""Targets for which it was the best of the ways compared."""
TARGETS: Final = 21
