"""The HTML page and its figures: the same bytes, nothing from elsewhere, no markup from names, readable by anyone."""

import dataclasses
import itertools
import re
from html import parser
from xml.etree import ElementTree as ET

import pytest

from cotenant_simulator.report import html, lanes, page, plots, samples, svg, thinning
from simulator import pages_kit as kit


class Reader(parser.HTMLParser):
    """Elements, identifiers, references and text of a page; whether everything is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what it is and what it refers to."""
        self.tags.append(tag)
        if tag != "meta":
            self._open.append(tag)
        for name, value in attrs:
            self.ids += [value or ""] if name == "id" else []
            self.links += [value or ""] if name in {"src", "href", "xlink:href", "data", "action"} else []
            self.links += re.findall(r"url\(([^)]*)\)", value or "")
            self.handlers += [name] if name.startswith("on") else []

    def handle_endtag(self, tag: str) -> None:
        """The innermost that is open."""
        assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of one that holds nothing."""
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        """What is read."""
        self.words.append(data)


def drawn(shown: page.Figure) -> ET.Element:
    """As XML: it is valid, or this fails."""
    return ET.fromstring(plots.element(shown, ident="f0"))  # noqa: S314 - our own


def words(shown: page.Figure) -> list[str]:
    return [one.text or "" for one in drawn(shown).iter("{http://www.w3.org/2000/svg}text")]


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_same_page_is_the_same_bytes() -> None:
    assert html.render(kit.whole()) == html.render(kit.whole())


def test_a_page_asks_nobody_for_anything() -> None:
    text = html.render(kit.whole())
    read = Reader(text)
    assert all(link.startswith("#") for link in read.links)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "default-src 'none'" in text


def test_identifiers_are_of_one_element_each_and_every_reference_finds_its_own() -> None:
    read = Reader(html.render(kit.whole()))
    assert len(read.ids) == len(set(read.ids)) > 0
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)


def test_names_are_text_and_nothing_else() -> None:
    text = html.render(kit.hostile())
    read = Reader(text)
    assert "script" not in read.tags
    assert not read.handlers
    assert not {"\x00", "\x1b", "\u202e", "\ud800"} & set(text)
    text.encode()
    assert any("<script>" in said for said in read.words)


@pytest.mark.parametrize("part", range(1, 4))
def test_a_figure_with_hostile_names_is_valid_xml(part: int) -> None:
    shown = kit.hostile().parts[part]
    assert not isinstance(shown, page.Table)
    assert any("<script>" in said or "_a|b" in said for said in words(shown))


@pytest.mark.parametrize("part", range(1, 4))
def test_a_figure_says_what_it_is_and_on_what_it_rests(part: int) -> None:
    shown = kit.whole().parts[part]
    assert not isinstance(shown, page.Table)
    root = drawn(shown)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == f"{shown.title} (simulated)"
    text = html.render(page.Page(title="t", answer="a", command="c", parts=[shown]))
    assert f'<figcaption><h2>{shown.title} <span class="basis">simulated</span>' in text
    assert "<details><summary>Numbers</summary>" in text


def test_a_part_without_figures_has_no_group_of_figures() -> None:
    text = html.render(page.Page(title="t", answer="a", command="c", parts=[kit.table()]))
    assert '<section class="figures">' not in text


def test_ink_is_the_pages_own_or_one_that_is_asked_for() -> None:
    shown = kit.lines(kit.line("a"))
    inline = plots.element(shown, ident="f")
    assert "fill: currentColor" in inline
    assert svg.INK not in inline
    assert f"fill: {svg.INK}" in plots.element(shown, ident="f", ink=svg.INK)


@pytest.mark.parametrize("colour", [*plots.COLOURS, svg.INK])
def test_colours_are_seen_on_light_and_on_dark(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 3
    assert contrast(colour, "#14171a") >= 3


def test_every_line_is_named_also_where_matplotlib_would_leave_it_out() -> None:
    names = ["_hidden", "$x^2$", "", *(f"way {number}" for number in range(20))]
    told = words(kit.lines(*map(kit.line, names)))
    assert all(name in told for name in names if name)


def test_lines_differ_by_more_than_colour() -> None:
    looks = {(plots.COLOURS[place % 8], plots.LINES[(place + place // 8) % 7]) for place in range(plots.MOST_SERIES)}
    assert len(looks) == plots.MOST_SERIES
    with pytest.raises(ValueError, match="57 lines in one figure cannot be told apart: at most 56"):
        plots.element(kit.lines(*(kit.line(str(number)) for number in range(57))), ident="f")


def test_a_scale_over_powers_of_ten_is_written_plainly_and_keeps_what_is_zero() -> None:
    shown = kit.lines(kit.line("wait", [0, 5, 50_000], [0.2, 0.5, 1.0]), steps=True, logarithmic=True)
    assert "10,000" in words(shown)
    assert plots.remark(shown) == "What is 0 is drawn at the left edge."


@pytest.mark.parametrize("logarithmic", [False, True])
def test_what_is_empty_is_drawn_empty(logarithmic: bool) -> None:
    for shown in (
        kit.lines(logarithmic=logarithmic),
        kit.lines(kit.line("none", [], []), logarithmic=logarithmic),
        kit.lines(kit.line("one", [0], [3]), logarithmic=logarithmic, steps=True),
        kit.bars(),
        kit.timeline({}),
        kit.timeline({"gpu-0": []}),
    ):
        assert drawn(shown).tag.endswith("svg")
        assert samples.table(shown).title == shown.title


def test_remarks_say_what_bands_and_ends_of_bars_are() -> None:
    assert plots.remark(kit.lines(kit.line("a", width=1))) == "Bands: 95 % interval."
    assert plots.remark(kit.lines(kit.line("a"))) == ""
    wide = kit.bars(a=page.Estimate(1, 0, 2))
    assert plots.remark(wide) == "Lines at the ends of bars: 95 % interval."
    assert (
        plots.remark(dataclasses.replace(wide, interval="least to most")) == "Lines at the ends of bars: least to most."
    )
    assert plots.remark(kit.bars(a=page.Estimate(1, 1, 1))) == ""


def test_a_long_line_is_drawn_with_few_points_that_keep_its_peaks() -> None:
    size = 100_000
    y = [0.0] * size
    y[54_321], y[77] = 9.0, -9.0
    kept = thinning.thinned(kit.line("spike", list(range(size)), y, width=1), logarithmic=False)
    assert len(kept.x) <= 8 * thinning.COLUMNS
    assert (max(kept.y), min(kept.y), kept.x[0], kept.x[-1]) == (9.0, -9.0, 0, size - 1)
    assert kept.low is not None
    assert min(kept.low) == -10
    assert len(plots.element(kit.lines(kit.line("spike", list(range(size)), y)), ident="f")) < 100_000
    short = kit.line("short")
    assert thinning.thinned(short, logarithmic=True) is short


def test_tenants_stand_above_each_other_and_come_down_when_one_leaves() -> None:
    spans = [page.Span(0, 10, 0.5, "a"), page.Span(2, 20, 0.25, "b"), page.Span(10, 30, 0.5, "c")]
    first, second, third = lanes.stacked(spans, until=25)
    assert (first.times, first.bottoms) == ([0, 10], [0])
    assert (second.times, second.bottoms) == ([2, 10, 20], [0.5, 0])
    assert (third.times, third.bottoms) == ([10, 20, 25], [0.25, 0])
    assert lanes.height([first, second, third]) == 0.75


def test_tenants_never_lie_on_each_other() -> None:
    spans = [page.Span(start, start + 7 + start % 3, 0.1 + start % 4 / 10, str(start)) for start in range(40)]
    shapes = lanes.stacked(spans, until=60)
    for moment in range(60):
        there = []
        for shape in shapes:
            for (begin, end), bottom in zip(itertools.pairwise(shape.times), shape.bottoms, strict=True):
                if begin <= moment < end:
                    there.append((bottom, bottom + shape.span.share))
        edges = [edge for pair in sorted(there) for edge in pair]
        assert edges == pytest.approx(sorted(edges))


def test_few_tenants_are_named_by_the_legend_and_many_where_the_pointer_rests() -> None:
    few = kit.timeline({"gpu-0": [page.Span(0, 60, 0.5, "bert"), page.Span(0, 60, 0.5, "vgg")]})
    assert {"bert", "vgg", "gpu-0"} <= set(words(few))
    many = kit.timeline({"gpu-0": [page.Span(start, start + 1, 1, f"job-{start}") for start in range(20)]})
    assert "job-3" not in words(many)
    titles = [one.text or "" for one in drawn(many).iter("{http://www.w3.org/2000/svg}title")]
    assert titles[3] == "job-3: 100%, 3 to 4 s"
    assert "Colours only tell neighbours apart." in plots.remark(many)


def test_of_ten_thousand_gpus_some_are_shown_and_the_page_says_which() -> None:
    spans = {f"gpu-{number:05}": [page.Span(0, 1 + number, 0.5, "a")] for number in range(10_000)}
    shown = kit.timeline(spans)
    chosen = lanes.chosen(shown)
    assert len(chosen.lanes) == lanes.MOST_LANES
    assert {"gpu-00000", "gpu-09999"} <= set(chosen.lanes)
    assert list(chosen.lanes) == sorted(chosen.lanes)
    assert "40 of 10,000 GPUs, evenly from the most used to the least." in plots.remark(shown)
    assert "40 of 10,000 GPUs" in samples.table(shown).note


def test_of_very_many_stays_the_first_are_shown() -> None:
    shown = kit.timeline({"gpu-0": [page.Span(start, start + 1, 1, "a") for start in range(5000)]})
    chosen = lanes.chosen(shown)
    assert chosen.until == lanes.MOST_SPANS
    assert "The first 2,000 of their 5,000 stays." in plots.remark(shown)
    assert len(lanes.stacked(chosen.lanes["gpu-0"], until=chosen.until)) == lanes.MOST_SPANS


def test_the_numbers_of_short_lines_are_all_there() -> None:
    found = samples.table(kit.lines(kit.line("a", width=1), kit.line("b", [0, 2], [7, 9])))
    assert [list(row) for row in found.rows] == [
        [0, page.Estimate(1, 0, 2), 7],
        [1, page.Estimate(2, 1, 3), None],
        [2, page.Estimate(3, 2, 4), 9],
    ]
    assert found.note == ""


@pytest.mark.parametrize("logarithmic", [False, True])
def test_the_numbers_of_long_lines_are_those_at_some_places(logarithmic: bool) -> None:
    x = [float(place) for place in range(1, 1001)]
    steps = samples.table(kit.lines(kit.line("a", x, x), steps=True, logarithmic=logarithmic))
    assert len(steps.rows) == samples.PLACES
    assert steps.note == "Values at 24 of 1,000 places."
    for place, value in steps.rows:
        assert isinstance(place, float)
        assert isinstance(value, float)
        assert place - 1 <= value <= place + 1e-9
    between = samples.table(kit.lines(kit.line("a", x, x), logarithmic=logarithmic))
    assert all(row[0] == pytest.approx(row[1]) for row in between.rows)


def test_the_numbers_of_a_timeline_are_stays_and_what_was_booked() -> None:
    found = samples.table(
        kit.timeline({"gpu-0": [page.Span(0, 50, 0.5, "a"), page.Span(0, 100, 0.5, "b")], "gpu-1": []})
    )
    assert [list(row) for row in found.rows] == [["gpu-0", 2, 0.75], ["gpu-1", 0, 0.0]]
