"""What is shown while Kubernetes is built: a comparison that says that it is simulated, or why there is none."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cotenant_e2e import waiting
from cotenant_e2e.demo import comparison, meanwhile
from cotenant_e2e.processes import Process
from cotenant_simulator.horus import settings


def way(name: str, *, makespan: float) -> dict[str, Any]:
    means = {"utilization": 47.8, "makespan": makespan, "completion": 7200.0}
    return {
        "name": name,
        "seeds": [{"slowdown_worst": 0.02}, {"slowdown_worst": 0.5}],
        "intervals": {figure: {"mean": mean} for figure, mean in means.items()},
    }


def document() -> dict[str, Any]:
    ways = [way(name, makespan=36000.0 / (number + 1)) for number, name in enumerate(comparison.WAYS)]
    return {"jobs": 100, "gpus": 12, "settings": [*ways, way("another", makespan=1.0)]}


def console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=100, force_terminal=False), out


def test_every_way_that_is_shown_is_one_that_is_simulated() -> None:
    assert set(comparison.WAYS) <= {setting.name for setting in settings.ALL}


def test_the_table_has_a_row_for_each_way_and_says_that_it_is_simulated() -> None:
    shown, out = console()
    shown.print(comparison.table(document()))
    lines = out.getvalue().splitlines()
    rows = [next(line for line in lines if line.startswith(words + " ")) for words in comparison.WAYS.values()]
    assert "SIMULATED: 100 jobs on 12 GPUs, means of 2 repeats" in lines
    assert rows[0].split()[-9:] == ["48", "%", "10.0", "h", "\u2588" * 10, "2.0", "h", "+50", "%"]
    assert [row.count("\u2588") for row in rows] == [10, 5, 3, 2]


def test_it_fits_on_a_terminal_of_80_columns() -> None:
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=False).print(comparison.table(document()))
    assert "slowest job\n" in out.getvalue()
    assert "\u2026" not in out.getvalue()


def test_the_comparison_is_shown_by_the_end_of_the_block() -> None:
    shown, out = console()
    with meanwhile.compared(shown, ["echo", json.dumps(document())]):
        pass
    assert "SIMULATED" in out.getvalue()


def test_a_simulation_that_fails_says_why_and_stops_nothing() -> None:
    shown, out = console()
    with meanwhile.compared(shown, ["sh", "-c", "echo first >&2; echo the model is not there >&2; exit 1"]):
        built = "built"
    assert built == "built"
    assert out.getvalue() == "the simulation failed ('the model is not there')\n"


def test_a_simulation_and_its_own_processes_end_with_a_build_that_fails(tmp_path: Path) -> None:
    shown, out = console()
    known = tmp_path / "pid"
    script = f'sleep 1000 & echo "$!" > {known}.partial; mv {known}.partial {known}; wait'
    started: list[Process] = []

    def build() -> None:
        waiting.wait_until(known.exists, "the PID of its process")
        started.append(Process.of(int(known.read_text())))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), meanwhile.compared(shown, ["sh", "-c", script]):
        build()
    (of_its_own,) = started
    waiting.wait_until(lambda: not of_its_own.alive(), "the end of its process")
    assert out.getvalue() == ""
