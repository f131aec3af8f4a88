"""Pages: what they hold, and how they are shown in Markdown and on a terminal."""

import io
import math

import pytest
from rich import console

from cotenant_simulator.report import cells, intervals, markdown, page, terminal
from simulator import pages_kit as kit


def printed(shown: page.Page, *, width: int = 80) -> str:
    file = io.StringIO()
    terminal.show(shown, console.Console(file=file, width=width))
    return file.getvalue()


def wide(columns: int) -> page.Page:
    """A table of estimates."""
    named = [page.Column("way"), *(page.Column(f"the figure number {place} %", ".1f") for place in range(columns))]
    rows = [(way, *(page.Estimate(1000.5 + place, 999, 1001) for place in range(columns))) for way in ("Slot", "FGD")]
    made = page.Table(title="Wide", basis=kit.SIMULATED, columns=named, rows=rows)
    return page.Page(title="Wide", answer="Yes.", command="cotenant", parts=[made])


def test_every_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="A table: every row must have 3 cells"):
        kit.table(("Slot", 1.0))


@pytest.mark.parametrize(
    ("x", "y", "low", "high"),
    [([1, 2], [1], None, None), ([1], [1], [1], None), ([1], [1], [1], [1, 2]), ([2, 1], [1, 1], None, None)],
)
def test_a_line_that_cannot_be_drawn_is_refused(
    x: list[float], y: list[float], low: list[float] | None, high: list[float] | None
) -> None:
    with pytest.raises(ValueError, match=r"^speed: "):
        page.Series(name="speed", x=x, y=y, low=low, high=high)


def test_tables_are_found_among_the_parts() -> None:
    assert [part.title for part in kit.whole().tables] == ["A table", "A table"]


@pytest.mark.parametrize(
    ("cell", "form", "told"),
    [
        (None, ".1f", ""),
        ("Slot", "", "Slot"),
        (1234.56, ",.1f", "1,234.6"),
        (page.Estimate(1.26, 1.0, 1.52), ".1f", "1.3 (1.0..1.5)"),
        (page.Estimate(1.26, 1.26, 1.26), ".1f", "1.3"),
        (page.Estimate(1.26, 1.251, 1.269), ".1f", "1.3"),
        ("a\tb\nc", "", "a b c"),
        ("\x1b[31mred\x9b \u202e", "", "�[31mred� �"),
        ("Gerät 🚀 日本", "", "Gerät 🚀 日本"),
    ],
)
def test_a_cell_reads_the_same_everywhere(cell: page.Cell, form: str, told: str) -> None:
    assert cells.text(cell, page.Column("x", form)) == told


def test_the_interval_of_few_repeats_is_students() -> None:
    assert intervals.mean([]) is None
    assert intervals.mean([2.5]) == page.Estimate(2.5, 2.5, 2.5)
    found = intervals.mean([1.0, 2.0, 3.0])
    assert found is not None
    half = 4.302652729911275 * 1 / math.sqrt(3)  # t of 2 degrees of freedom at 97.5 %, by tables
    assert (found.mean, found.low, found.high) == pytest.approx((2, 2 - half, 2 + half))


def test_an_interval_ends_where_the_quantity_does() -> None:
    found = intervals.mean([0.0, 0.0, 3.0], least=0.0)
    assert found is not None
    assert (found.mean, found.low) == (1, 0)
    assert found.high > 4


def test_equal_repeats_have_no_width() -> None:
    assert intervals.mean([2.0, 2.0, 2.0]) == page.Estimate(2, 2, 2)


def test_markdown_tells_command_answer_tables_and_conditions() -> None:
    shown = page.Page(
        title="A page",
        answer="It is so.",
        command="cotenant x",
        conditions=["All of it.", "And more."],
        parts=[kit.table(("Slot", 43.12, 1000), note="A note."), kit.lines(kit.line("left out"))],
    )
    assert list(markdown.lines(shown)) == [
        "`cotenant x`",
        "",
        "It is so.",
        "",
        "**A table** (published)",
        "",
        "| way | share % | jobs |",
        "| --- | ---: | ---: |",
        "| Slot | 43.1 | 1,000 |",
        "",
        "A note.",
        "",
        "- All of it.",
        "- And more.",
    ]


def test_markdown_lets_no_name_be_markup_or_another_column() -> None:
    found = list(markdown.lines(kit.hostile()))
    assert all("\n" not in line and "\x1b" not in line for line in found)
    assert not [line for line in found[1:] if "<script" in line]  # the first is the command, as code
    assert [line.count("|") for line in found if line.startswith("| _a")] == [2, 2]
    assert found[0].count("`") == 2


def test_a_terminal_shows_answer_tables_notes_and_conditions() -> None:
    told = printed(kit.whole())
    assert told.startswith("A page\nIt is so.\n")
    assert "A table (published)\n" in told
    assert "70.2 (69.0..71.5)" in told
    assert told.endswith("- All of it.\n")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_table_wider_than_the_terminal_becomes_several_without_a_broken_number(width: int) -> None:
    told = printed(wide(9), width=width).splitlines()
    assert max(map(len, told)) <= width
    slot = [line for line in told if line.startswith(" Slot")]
    assert len(slot) == sum(line.startswith(" FGD") for line in told) >= (1 if width == 200 else 2)
    numbers = " ".join(slot)
    assert all(f"{1000.5 + place:.1f} (999.0..1001.0)" in numbers for place in range(9))
    assert "…" not in "".join(told)


def test_long_words_of_text_are_broken_into_lines() -> None:
    reason = "2 GPUs hold 3 jobs, 1 lacks 3.1 GiB, 4 are another model; 4th in the queue behind two others"
    made = page.Table(title="Why", basis=kit.SIMULATED, columns=[page.Column("why")] * 2, rows=[(reason, reason)])
    told = printed(page.Page(title="Why", answer="So.", command="cotenant", parts=[made]))
    assert max(map(len, told.splitlines())) <= 80
    assert set(reason.split()) <= set(told.split())


def test_a_terminal_takes_no_orders_from_a_name() -> None:
    told = printed(kit.hostile())
    assert not {"\x1b", "\x00", "\u202e"} & set(told)
    assert "<script>" in told
    assert "[bold]" in printed(page.Page(title="[bold]", answer="", command=""))


def test_a_table_without_rows_still_names_its_columns() -> None:
    told = printed(page.Page(title="t", answer="a", command="c", parts=[kit.table()]))
    assert "share %" in told
