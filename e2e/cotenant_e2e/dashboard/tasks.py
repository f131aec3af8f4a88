"""How long Chromium's main thread was held up: durations of its tasks, out of a trace. Pure but for the browser."""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Browser, Page

LONG_MILLISECONDS: Final = 50.0
"""What the Long Tasks API calls long (https://www.w3.org/TR/longtasks-1/)."""
_TASK: Final = "RunTask"
_CATEGORIES: Final = ("disabled-by-default-devtools.timeline", "devtools.timeline", "toplevel")
_MAIN: Final = "CrRendererMain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Of one page, in one phase; milliseconds, by the wall and of CPU."""

    phase: str
    count: int
    median: float
    p99: float
    longest: float
    longest_cpu: float
    long: int

    def row(self) -> str:
        """Of the table."""
        figures = [
            f"{self.count:,}",
            *(f"{one:.1f}" for one in (self.median, self.p99, self.longest, self.longest_cpu)),
        ]
        return f"| {self.phase} | {' | '.join(figures)} | {self.long} |"


def traced(browser: Browser, page: Page, phase: str, act: Callable[[], None]) -> Tasks:
    """Return the tasks of a page while something happens."""
    browser.start_tracing(page=page, categories=list(_CATEGORIES))
    act()
    return summed(phase, json.loads(browser.stop_tracing())["traceEvents"])


def summed(phase: str, events: Sequence[dict[str, Any]]) -> Tasks:
    """Of the renderer that had most to do: there is one page."""
    mains = {
        (one["pid"], one["tid"]) for one in events if one["name"] == "thread_name" and one["args"]["name"] == _MAIN
    }
    tasks = [one for one in events if one["name"] == _TASK and (one["pid"], one["tid"]) in mains and "dur" in one]
    busiest = Counter(one["pid"] for one in tasks).most_common(1)[0][0]
    own = [one for one in tasks if one["pid"] == busiest]
    wall = sorted(one["dur"] / 1000 for one in own)
    return Tasks(
        phase=phase,
        count=len(wall),
        median=statistics.median(wall),
        p99=wall[min(len(wall) * 99 // 100, len(wall) - 1)],
        longest=wall[-1],
        longest_cpu=max(one.get("tdur", 0) for one in own) / 1000,
        long=sum(one > LONG_MILLISECONDS for one in wall),
    )
