"""What rounds say together: medians, ratios beside their bars, a document and a table. Pure."""

import collections
import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_e2e.benchmark.rounds import Contender, Round


@dataclass(frozen=True)
class Ratio:
    """Pods per second of one contender as a part of another's. `bar`, `aim`: by the number of nodes."""

    name: str
    over: Contender
    under: Contender
    bar: Mapping[int, float]
    aim: Mapping[int, float]


RATIOS: Final = (
    Ratio("filter and bind", Contender.LIFTED_OURS, Contender.PLAIN, {100: 0.70, 1000: 0.70}, {100: 0.85, 1000: 0.75}),
    Ratio(
        "lift, filter and bind",
        Contender.GATED_OURS,
        Contender.GATED_PLAIN,
        {100: 0.70, 1000: 0.70},
        {100: 0.80, 1000: 0.80},
    ),
    Ratio("filter and bind, against the default sample", Contender.LIFTED_OURS, Contender.SAMPLED, {}, {}),
)


@dataclass(frozen=True)
class Found:
    """A ratio as measured: the median over the turns, with the least and the most."""

    ratio: Ratio
    median: float
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """All rounds on one number of nodes. `turns`: one round of every contender, in turn."""

    nodes: int
    gpus: int
    cores: int
    turns: Sequence[Mapping[Contender, Round]]

    @property
    def rounds(self) -> list[Round]:
        """Of all contenders, in the order in which they ran."""
        return [one for turn in self.turns for one in turn.values()]

    def found(self) -> list[Found]:
        """Every ratio of which both sides were measured."""
        return [one for ratio in RATIOS if (one := self._found(ratio)) is not None]

    def pods_per_second(self, contender: Contender) -> float:
        """Return the median."""
        return statistics.median(turn[contender].pods_per_second for turn in self.turns)

    def cpu_milliseconds_per_pod(self, contender: Contender) -> dict[str, float]:
        """Return the median of each process."""
        spent = [turn[contender].cpu_milliseconds_per_pod for turn in self.turns]
        return {name: statistics.median(one.get(name, 0.0) for one in spent) for name in spent[0]}

    @property
    def contenders(self) -> list[Contender]:
        """Who took part."""
        return list(self.turns[0]) if self.turns else []

    @property
    def timeouts(self) -> int:
        """Requests to the extender that timed out, in all rounds."""
        return sum(one.timeouts for one in self.rounds)

    @property
    def turned_away(self) -> int:
        """Requests that the API server turned away, in all rounds."""
        return sum(one.turned_away for one in self.rounds)

    @property
    def failures(self) -> dict[str, int]:
        """Requests to the extender, lifts and binds that ended otherwise than well, by what and result."""
        fine, found = (".ok", ".bound"), collections.Counter[str]()
        for one in self.rounds:
            found.update({key: n for key, n in one.requests.items() if n and not key.endswith(fine)})
        return dict(sorted(found.items()))

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "simulatedGPUs": self.gpus,
            "nodes": self.nodes,
            "cores": self.cores,
            "pods": self.rounds[0].pods if self.turns else 0,
            "turns": len(self.turns),
            "ratios": [
                {
                    "name": one.ratio.name,
                    "of": one.ratio.over,
                    "to": one.ratio.under,
                    "median": round(one.median, 3),
                    "least": round(one.least, 3),
                    "most": round(one.most, 3),
                    "bar": one.ratio.bar.get(self.nodes),
                    "aim": one.ratio.aim.get(self.nodes),
                }
                for one in self.found()
            ],
            "podsPerSecond": {one: round(self.pods_per_second(one), 1) for one in self.contenders},
            "cpuMillisecondsPerPod": {
                one: {name: round(ms, 3) for name, ms in self.cpu_milliseconds_per_pod(one).items()}
                for one in self.contenders
            },
            "timeouts": self.timeouts,
            "turnedAway": self.turned_away,
            "failures": self.failures,
            "rounds": [dataclasses.asdict(one) for one in self.rounds],
        }

    def _found(self, ratio: Ratio) -> Found | None:
        if not self.turns or not {ratio.over, ratio.under} <= set(self.contenders):
            return None
        each = [turn[ratio.over].pods_per_second / turn[ratio.under].pods_per_second for turn in self.turns]
        return Found(ratio, statistics.median(each), min(each), max(each))
