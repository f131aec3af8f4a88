"""`cotenant simulate horus` on its command line."""

import argparse
import json
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_simulator.commands import horus
from cotenant_simulator.horus import optimum, population


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    horus.configure(parser)
    return parser.parse_args(arguments)


def test_without_options_the_assumptions_are_those_of_the_page() -> None:
    assert horus.assumed(parsed()) == population.Assumed()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--sigma", "-0.1"), ("--sigma", "nan"), ("--estimate-sigma", "3.1"), ("--arrival-hours", "49")],
)
def test_a_figure_that_makes_no_sense_is_refused(option: str, value: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=option):
        horus.assumed(parsed(option, value))


def test_optimum_and_varied_assumptions_are_asked_for_one_at_a_time() -> None:
    with pytest.raises(SystemExit):
        parsed("--optimum", "--vary")


@pytest.mark.parametrize(
    ("mode", "option", "value"), [("--vary", "--sigma", "0.3"), ("--optimum", "--arrival-hours", "1")]
)
def test_an_option_that_would_change_nothing_is_refused(mode: str, option: str, value: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=f"{option}.*{mode}"):
        horus.run(parsed(mode, option, value))


def test_optimum_is_told_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, html = tmp_path / "page.md", tmp_path / "page.html"
    section = horus.OPTIMUM_SECTION
    page.write_text(f"<!-- begin: {section} -->\n\n<!-- end: {section} -->\n", encoding="utf-8")
    options = ("--optimum", "--seeds", "1", "--processes", "1", "--json", "--write", str(page), "--html", str(html))
    assert horus.run(parsed(*options)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["gpus"] for one in found["instances"]] == [one.gpus for one in optimum.INSTANCES]
    assert "`cotenant simulate horus --optimum --seeds 1`" in page.read_text(encoding="utf-8")
    assert html.read_text(encoding="utf-8").count("<svg") >= len(optimum.INSTANCES)
