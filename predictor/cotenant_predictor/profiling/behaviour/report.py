"""Tables of what is documented, what stand-ins do, and what was seen on real GPUs. Pure: results in, Markdown out.

Columns are kinds of hardware; no figure of one ever stands in the column of another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import questions
from .questions import Experiment, Merge, Question

SIMULATED, STAND_IN = "simulated device", "stand-in"
NOT_MEASURED = "not measured yet"
_MAX_CELL = 160
_MANY = 4


@dataclasses.dataclass(frozen=True)
class Column:
    """One kind of hardware. `name`: the two kinds that are none, or a model with its driver."""

    name: str
    results: tuple[Mapping[str, Any], ...]

    @property
    def real(self) -> bool:
        """Whether there is a GPU behind it."""
        return self.name not in {SIMULATED, STAND_IN}


def columns(results: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Results by hardware: first both stand-ins, whether they were asked or not, then each real GPU.

    Raises:
        ValueError: a result says of itself both that it is real and that its driver is none.
    """
    found: dict[str, list[Mapping[str, Any]]] = {SIMULATED: [], STAND_IN: []}
    for result in results:
        found.setdefault(_hardware(result), []).append(result)
    return tuple(Column(name, tuple(rows)) for name, rows in found.items())


def differences(made: Sequence[Column]) -> list[str]:
    """Return a table for each experiment: question, documented, each column.

    What differs from the documents is marked.
    """
    shown = list(made) if any(column.real for column in made) else [*made, Column("real GPU", ())]
    lines: list[str] = []
    for experiment in questions.EXPERIMENTS:
        lines += ["", f"**{experiment.title}** (`{experiment.name}`)", ""]
        lines.append("| | documented | " + " | ".join(f"{column.name}" for column in shown) + " |")
        lines.append("|" + "---|" * (2 + len(shown)))
        for question in experiment.questions:
            cells = [_cell(experiment, question, column) for column in shown]
            lines.append(f"| {question.asks} | {_documented(question)} | " + " | ".join(cells) + " |")
    return lines[1:]


def summary(made: Sequence[Column]) -> list[str]:
    """One line for each answer that contradicts the documents or another column, and one for what was not asked."""
    lines = []
    for experiment in questions.EXPERIMENTS:
        for question in experiment.questions:
            if question.expected is None:
                continue
            for column in made:
                answer = merged(experiment, question, column)
                if answer is not None and answer != question.expected:
                    said = f"documented {_plain(question.expected)}, seen {_plain(answer)}"
                    lines.append(f"- **{column.name}**, `{experiment.name}`, {question.asks}: {said}")
    return lines or ["- none"]


def conditions(made: Sequence[Column]) -> list[str]:
    """One line for each column: when and with what it was asked."""
    lines = []
    for column in made:
        if not column.results:
            lines.append(f"- {column.name}: {NOT_MEASURED}")
            continue
        latest = max(column.results, key=lambda result: str(result["time"]))
        environment, day = latest["environment"], str(latest["time"])[:10]
        kind = "" if column.real else " (no GPU: says nothing of one)"
        lines.append(
            f"- {column.name}{kind}: {latest['gpuModel']}, driver {environment['driver']}, CUDA {environment['cuda']}, "
            f"torch {environment['torch']}, {environment['cpu']}; {day}, {len(column.results)} runs"
        )
    if not any(column.real for column in made):
        lines.append(f"- real GPU: {NOT_MEASURED}")
    return lines


def models(made: Sequence[Column]) -> list[str]:
    """Speed of each model at each percentage of threads; a table for each column.

    Against its own at 100 %; against that without MPS where the job was not measured at 100 %.
    """
    lines: list[str] = []
    for column in made:
        rates, without = _rates(column), _rates_alone(column)
        if not rates:
            lines += ["", f"{column.name}: {NOT_MEASURED}."]
            continue
        steps = sorted({percentage for by in rates.values() for percentage in by})
        lines += ["", f"{column.name}:", ""]
        lines.append("| model | " + " | ".join(f"{step} %" for step in steps) + " |")
        lines.append("|" + "---|" * (1 + len(steps)))
        for name, by in sorted(rates.items()):
            whole = by.get(100) or without.get(name)
            cells = [f"{by[step] / whole:.2f}" if whole and step in by else "" for step in steps]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if not any(column.real for column in made):
        lines += ["", f"real GPU: {NOT_MEASURED}."]
    return lines[1:]


def merged(experiment: Experiment, question: Question, column: Column) -> Any:
    """Return the one answer of all runs of an experiment; None: there is none. Runs that differ: a list of answers."""
    rows = [result["experiment"]["answers"] for result in _runs(experiment, column)]
    answers = [row[question.key] for row in rows if question.key in row]
    return _MERGES[question.merge](answers) if answers else None


def _runs(experiment: Experiment, column: Column) -> list[Mapping[str, Any]]:
    named = [result for result in column.results if result["run"].get("experiment") == experiment.name]
    return sorted(named, key=lambda result: int(result["run"]["repeat"]))


def _cell(experiment: Experiment, question: Question, column: Column) -> str:
    answer = merged(experiment, question, column)
    if answer is None:
        reasons = [run["experiment"]["reasons"].get(question.key) for run in _runs(experiment, column)]
        return _escaped(next((f"*{reason}*" for reason in reasons if reason), NOT_MEASURED))
    if question.timed and not column.real:
        return "*a time of its host*"
    text = _escaped(_plain(answer))
    return text if question.expected is None or answer == question.expected else f"**{text}**"


def _documented(question: Question) -> str:
    if not question.source:
        return question.documented
    if question.source.startswith("https:"):
        return f"[{question.documented}]({question.source})"
    return f"{question.documented} ({question.source})"


def _plain(answer: Any) -> str:
    """As a person reads it."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, Mapping):
        numbered = all(str(key).isdigit() for key in answer)
        ordered = sorted(answer.items(), key=lambda item: int(item[0])) if numbered else answer.items()
        return ", ".join(f"{key}: {_plain(value)}" for key, value in ordered)
    if isinstance(answer, list):
        return ", ".join(_plain(value) for value in answer) or "none"
    return str(answer).strip()


def _escaped(text: str) -> str:
    flat = " ".join(text.replace("|", "\\|").split())
    return flat if len(flat) <= _MAX_CELL else f"{flat[: _MAX_CELL - 3]}..."


def _same(answers: Sequence[Any]) -> Any:
    different = [answer for index, answer in enumerate(answers) if answer not in answers[:index]]
    return different[0] if len(different) == 1 else different[:_MANY]


def _union(answers: Sequence[Any]) -> list[Any]:
    return sorted({one for answer in answers for one in (answer if isinstance(answer, list) else [answer])})


_MERGES: Mapping[Merge, Callable[[Sequence[Any]], Any]] = {
    Merge.SAME: _same,
    Merge.SUM: sum,
    Merge.LARGEST: max,
    Merge.UNION: _union,
}


def _hardware(result: Mapping[str, Any]) -> str:
    driver = str(result["environment"]["driver"])
    kind = STAND_IN if STAND_IN in driver else SIMULATED if result["simulated"] else f"{result['gpuModel']}, {driver}"
    if (kind in {SIMULATED, STAND_IN}) != bool(result["simulated"]):
        raise ValueError(f"{result['id']}: simulated is {result['simulated']}, and the driver is {driver}")
    return kind


def _rates(column: Column) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for result in column.results:
        if result["run"]["stage"] == "percentages" and result["outcome"] == "Ok":
            planned, row = result["run"]["tenants"][0], result["tenants"][0]
            found.setdefault(planned["job"], {})[int(planned["thread_percentage"])] = float(row["stepsPerSecond"])
    return found


def _rates_alone(column: Column) -> dict[str, float]:
    return {
        result["run"]["tenants"][0]["job"]: float(result["tenants"][0]["stepsPerSecond"])
        for result in column.results
        if result["run"]["stage"] == "alone" and result["outcome"] == "Ok"
    }
