"""Python's search for garbage, in short turns: the event loop waits for each.

Records, and connections that have ended, make no cycles: they go when nothing refers to them. What has been looked at
twice is therefore never looked at again (`gc.freeze`). A search among everything that a large cluster's ledger holds
would take a third of a second.
"""

import gc
from typing import Final

THRESHOLDS: Final = (5_000, 2, 2**31 - 1)
"""New objects before the youngest are looked at; how often before those that stayed are, too; never all."""
_LAST_GENERATION: Final = 1


def look_in_short_turns() -> None:
    """Look through everything once; from then on through what is new alone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if keep not in gc.callbacks:
        gc.callbacks.append(keep)


def keep(phase: str, found: dict[str, int]) -> None:
    """Keep what is still there after two searches out of the next ones."""
    if phase == "stop" and found["generation"] >= _LAST_GENERATION:
        gc.freeze()
