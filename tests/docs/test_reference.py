"""The generated parts of docs/reference/ and of the chart's README are up to date, and hold all that they should."""

import argparse
from importlib import metadata
from pathlib import Path

import pytest

from cotenant_api import cli, errors
from cotenant_e2e import __main__ as command_line
from cotenant_e2e.documentation import arguments, reference, tables


def test_the_generated_parts_are_up_to_date() -> None:
    pages = reference.pages()
    assert {page.stem for page in pages} == {"README", "commands", "gpunode", "metrics", "packingpolicy", "values"}
    assert [page.name for page, text in pages.items() if page.read_text(encoding="utf-8") != text] == []


def test_every_subcommand_has_a_section() -> None:
    headings = {line for line in reference.commands() if line.startswith("## ")}
    assert headings == {f"## `cotenant {entry.name}`" for entry in metadata.entry_points(group=cli.GROUP)}


def test_a_command_is_told_with_its_arguments_and_their_defaults() -> None:
    parser = argparse.ArgumentParser(prog="tool")
    command = parser.add_subparsers().add_parser("do", description="do it")
    command.add_argument("names", metavar="NAME", nargs="+", help="what | whom")
    command.add_argument("-n", "--number", type=int, default=3, help="how many (default: %(default)s)")
    command.add_argument("--quiet", action="store_true")
    command.add_argument("--secret", help=argparse.SUPPRESS)
    assert list(arguments.pages(parser)) == [
        "## `tool do`",
        "",
        "Do it.",
        "",
        "```text",
        "tool do [OPTION]... NAME...",
        "```",
        "",
        "| argument | default | |",
        "|---|---|---|",
        "| `NAME...` |  | what \\| whom |",
        "",
        "| option | default | |",
        "|---|---|---|",
        "| `-n`, `--number NUMBER` | `3` | how many (default: 3) |",
        "| `--quiet` |  |  |",
        "",
    ]


def test_values_have_their_comments_and_bounds() -> None:
    rows = {line.split("`")[1]: line for line in tables.values()[2:]}
    assert "1 to 5" in rows["scheduler.replicas"]
    assert "`Pack` `Observe`" in rows["mode"]
    assert "Which nodes have GPUs that Cotenant shares." in rows["node.nodeSelector"]
    assert "image" not in rows, "a key without a value or a word of its own has no row"


@pytest.mark.parametrize(
    ("component", "metric"),
    [("cotenant-extender", "cotenant_extender_binds_total"), ("cotenant-node-agent", "cotenant_gpu_memory_used_bytes")],
)
def test_metrics_are_told_with_their_labels(component: str, metric: str) -> None:
    (row,) = (line for line in tables.metrics(component) if f"`{metric}`" in line)
    assert row.count("`") > 2


def test_an_outdated_page_fails_with_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    command = "cotenant_e2e reference: metrics cotenant-extender"
    page.write_text(f"<!-- begin: {command} -->\nold\n<!-- end: {command} -->\n", encoding="utf-8")
    assert command_line.main(["reference", "--check", "--dir", str(tmp_path)]) == 1
    assert reference.COMMAND in capsys.readouterr().err
    assert command_line.main(["reference", "--write", "--dir", str(tmp_path)]) == 0
    assert command_line.main(["reference", "--check", "--dir", str(tmp_path)]) == 0


def test_a_section_of_nothing_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="must be commands, values, or metrics"):
        reference.section("nothing")
