"""`cotenant simulate openb` on a synthetic trace: its JSON, its tables, its self-check and its errors."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_simulator.commands import simulate
from simulator import oracle, synthetic


def called(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    simulate.configure(parser)
    return simulate.run(parser.parse_args(["openb", *argv]))


@pytest.fixture(scope="module")
def folder() -> Path:
    return synthetic.COMMITTED


def asked(folder: Path, *more: str, trace: str = "plain", seeds: str = "42") -> list[str]:
    return ["--trace-dir", str(folder), "--trace", trace, "--seeds", seeds, "--processes", "1", *more]


def documents(text: str) -> list[dict[str, Any]]:
    """Without the seconds, which alone differ between calls."""
    found = [json.loads(line) for line in text.splitlines()]
    for document in found:
        for seed in document["seeds"]:
            assert seed.pop("seconds") >= 0
    return found


def test_the_committed_trace_is_what_is_drawn_and_its_curves_are_the_oracles(folder: Path, tmp_path: Path) -> None:
    oracle.commit(tmp_path)
    drawn = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert drawn == {file.name: file.read_bytes() for file in folder.glob("*.csv")}


def test_the_json_is_as_documented(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(*asked(folder, "--placement", "FirstFit", "--json", seeds="42-43")) == 0
    (document,) = documents(capsys.readouterr().out)
    assert list(document) == ["trace", "placement", "seeds"]
    assert (document["trace"], document["placement"]) == ("plain", "FirstFit")
    assert [seed["seed"] for seed in document["seeds"]] == [42, 43]
    first = document["seeds"][0]
    assert list(first) == ["seed", "allocated_percent", "fragmented_percent", "refused_though_fitting", "violations"]
    assert list(first["allocated_percent"]) == list(first["fragmented_percent"]) == ["100", "130"]
    assert 50 < first["allocated_percent"]["100"] <= first["allocated_percent"]["130"] <= 100
    assert 0 < first["fragmented_percent"]["100"] <= 100 - first["allocated_percent"]["100"] + 1e-3
    assert (first["refused_though_fitting"], first["violations"]) == (0, 0)


def test_the_same_call_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        assert called(*asked(folder, "--json")) == 0
        told.append(documents(capsys.readouterr().out))
    assert told[0] == told[1]


def test_the_self_check_comes_first_and_its_runs_are_not_run_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*asked(folder, "--placement", "BestFit", "--placement", "Spread", seeds="42-43")) == 0
    told = [line.partition("openb: ")[2].split(": ")[:2] for line in capsys.readouterr().err.splitlines()]
    assert told[:5] == [*(["self-check", f"{run}/4"] for run in range(1, 5)), ["self-check", "4 runs are as published"]]
    assert [first for first, *_ in told[5:]] == ["1/2", "2/2", "bound", "bound"]


def test_a_replay_that_is_not_the_published_one_prints_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = synthetic.write(tmp_path)
    oracle.publish(tmp_path, names, seeds=[42], offset=0.02)
    with pytest.raises(
        errors.PermanentError, match=r"self-check: plain, BestFit, seed 42: column 100 is .*, published"
    ):
        called(*asked(tmp_path))
    assert capsys.readouterr().out == ""


def test_a_trace_without_published_curves_rests_on_the_others_of_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(tmp_path)
    oracle.publish(tmp_path, ["models"], seeds=[42])
    assert called(*asked(tmp_path)) == 0
    told = capsys.readouterr().err
    assert "no curves of BestFit and GpuPacking on plain are published" in told
    assert "the self-check rests on 2 runs of other traces" in told
    assert "self-check: 2/2: models, GpuPacking, seed 42: as published" in told


def test_a_defect_is_found_on_the_other_traces_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path)
    oracle.publish(tmp_path, ["models"], seeds=[42], offset=-0.02)
    with pytest.raises(errors.PermanentError, match=r"self-check: models, BestFit"):
        called(*asked(tmp_path))
    assert capsys.readouterr().out == ""


def test_without_published_curves_it_says_that_there_is_no_self_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(tmp_path)
    assert called(*asked(tmp_path, "--json")) == 0
    printed = capsys.readouterr()
    assert "the self-check cannot run" in printed.err
    assert len(documents(printed.out)) == 1


def test_several_traces_placements_and_limits_are_a_line_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--placement", "FirstFit", "--placement", "Spread", "--max-tenants", "16", "--max-tenants", "3", "--json"]
    assert called(*asked(folder, *more, trace="all")) == 0
    found = documents(capsys.readouterr().out)
    told = [(document["trace"], document["placement"], document["max_tenants"]) for document in found]
    expected_lines = [("FirstFit", 16), ("Spread", 16), ("FirstFit", 3), ("Spread", 3)]
    assert told == [(name, *line) for name in ("models", "plain") for line in expected_lines]


def test_all_placements_are_those_that_need_no_predictions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(*asked(folder, "--placement", "all", "--json")) == 0
    found = [document["placement"] for document in documents(capsys.readouterr().out)]
    assert found == ["FirstFit", "BestFit", "Spread", "FGD", "DualPrice", "Random"]


def test_tables_tell_what_was_published_and_which_placement_wins(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*asked(folder, "--placement", "FirstFit", "--placement", "Spread")) == 0
    printed = capsys.readouterr().out
    for row in (r"FirstFit +16 ", r"Spread +16 ", r"GpuPacking +\d"):
        assert re.search(rf"^ {row}", printed, re.MULTILINE)
    assert re.search(
        r"^At most 16 tenants per GPU: (FirstFit|Spread) allocates most, \d+\.\d\d % ", printed, re.MULTILINE
    )
    assert "Each seed" not in printed


def test_one_placement_alone_is_told_for_each_seed_beside_its_bound(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*asked(folder, seeds="42-43")) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^FirstFit allocates \d+\.\d\d % of the GPUs when as many were asked for; no\s+placement",
        printed,
        re.MULTILINE,
    )
    assert re.search(r"^ +42 +\d+\.\d\d ", printed, re.MULTILINE)


def test_the_page_of_a_run_shows_its_figures(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert called(*asked(folder, "--placement", "FirstFit", "--placement", "Spread", "--html", str(file))) == 0
    text = file.read_text(encoding="utf-8")
    assert text.count("<svg ") == 2
    assert "Lost against the bound, on the trace plain" in text


def test_the_table_is_written_between_the_markers_below_the_call(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "packing.md"
    begin, end = "<!-- begin: cotenant simulate openb -->", "<!-- end: cotenant simulate openb -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    assert called(*asked(folder, "--placement", "FirstFit", "--write", str(page))) == 0
    text = page.read_text(encoding="utf-8")
    command = "cotenant simulate openb --trace plain --placement FirstFit --seeds 42"
    assert text.startswith(f"before\n{begin}\n\n`{command}`\n\nFirstFit allocates ")
    assert text.endswith("-->\nafter\n")
    assert "| FirstFit | 16 |" in text
    assert "old" not in text


def test_a_page_without_the_markers_is_refused_before_any_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "packing.md"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match=r"--write: .*must hold the lines <!-- begin: cotenant simulate"):
        called(*asked(folder, "--write", str(page)))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--placement", "Best"], r"--placement: 'Best': must be all or one of FirstFit"),
        (["--max-tenants", "0"], r"--max-tenants: 0: must be 1 to 16"),
        (["--max-tenants", "17"], r"--max-tenants: 17"),
        (["--seeds", "51-42"], r"--seeds: '51-42': must be seeds such as 42-51"),
        (["--seeds", "a"], r"--seeds: 'a'"),
        (["--seeds", "0-999999999"], r"--seeds: .*at most 1000 in a range"),
        (["--processes", "0"], r"--processes: 0: must be at least 1"),
        (["--trace", "none"], r"--trace: 'none': .*traces in that folder: models, plain"),
        (["--trace-dir", "/nonexistent"], r"--trace-dir: '/nonexistent': must be a folder"),
        (["--trace-dir", "/nonexistent", "--trace", "all"], r"--trace-dir: '/nonexistent': must be a folder"),
    ],
)
def test_what_cannot_be_done_is_named(folder: Path, more: list[str], said: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=said):
        called(*asked(folder, *more))


def test_seeds_are_lists_and_ranges_each_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(*asked(folder, "--json", "--seeds", "43,42-43")) == 0
    (document,) = documents(capsys.readouterr().out)
    assert [seed["seed"] for seed in document["seeds"]] == [43, 42]
