"""`cotenant simulate kace` on groups of a simulated GPU: its JSON, its Markdown and its errors."""

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cotenant_api import errors
from cotenant_simulator.commands import kace
from predictor_kit.commands import called
from simulator import groups_kit


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return groups_kit.write(tmp_path_factory.mktemp("groups"), jobs=5)


def asked(data: Path, *more: str) -> list[str]:
    return ["--measurements", str(data), "--simulated", "--shuffles", "1", "--processes", "1", *more]


class Told(NamedTuple):
    """What one call printed, and what it wrote."""

    document: dict[str, Any]
    page: str


@pytest.fixture(scope="module")
def told(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    page = tmp_path_factory.mktemp("page") / "page.md"
    page.write_text("<!-- begin: cotenant simulate kace -->\n<!-- end: cotenant simulate kace -->\n")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert called(kace, *asked(data, "--split", "random", "--json", "--write", str(page))) == 0
    return Told(json.loads(out.getvalue()), page.read_text())


def test_pairs_and_triples_of_a_file_are_both_told(told: Told) -> None:
    document = told.document
    assert document["simulated"] is True
    assert document["groups"] == {"pairs": 10, "triples": 10}
    assert [(result["split"], result["of"]) for result in document["results"]] == [
        ("random", "pairs"),
        ("random", "triples"),
    ]
    for result in document["results"]:
        assert len(result["targets"]) == 5
        assert result["choosers"]["oracle"]["shareOfOraclePercent"] == {"mean": 100.0, "low": 100.0, "high": 100.0}


def test_the_section_of_a_page_is_written_and_says_that_a_gpu_was_simulated(data: Path, told: Told) -> None:
    command = f"`cotenant simulate kace --measurements {data} --simulated --split random --shuffles 1`"
    assert command in told.page
    assert "A simulated GPU gave these figures" in told.page
    assert "(simulated)" in told.page
    assert "(measured)" not in told.page


def test_a_split_that_the_data_do_not_allow_is_left_out_unless_it_is_asked_for(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(kace, *asked(data, "--split", "leave-gpu-out")) == 1
    assert "needs runs of the same mechanism on another GPU model" in capsys.readouterr().err


def test_simulated_lines_are_refused_where_measured_ones_are_asked_for(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(kace, "--measurements", str(data)) == 1
    told = capsys.readouterr().err
    assert f"{data}:" in told
    assert "simulated and measured lines are never mixed" in told


def test_a_bad_line_is_refused_with_its_place(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(data.read_text() + '{"mechanism": "Magic"}\n')
    assert called(kace, "--measurements", str(bad), "--simulated") == 1
    assert f"{bad}:{len(data.read_text().splitlines()) + 1}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "remedy"),
    [
        (["--shuffles", "0"], "must be 1 to 100"),
        (["--simulated"], "needs --measurements"),
        (["--measurements", "/nowhere/at/all"], "cannot be read"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    argv: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(kace, *argv) == 1
    assert remedy in capsys.readouterr().err


def test_a_page_without_the_section_is_refused_before_anything_is_computed(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(errors.InvalidInputError, match="--write"):
        kace.run(_parsed(asked(data, "--write", str(page))))


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    kace.configure(parser)
    return parser.parse_args(argv)
