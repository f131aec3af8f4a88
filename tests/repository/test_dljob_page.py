"""`docs/dljob.md` says what the code does: its fields, reasons, events, causes and examples, and none besides."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import dljob, errors, sections
from cotenant_api.commands import crds
from cotenant_api.pod import PackedReason
from cotenant_operator import reasons
from cotenant_operator.state.carried import Cause
from cotenant_operator.telling import happenings
from cotenant_operator.workloads import environment, runs

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "dljob.md"
EXAMPLES = REPOSITORY / "manifests" / "examples" / "dljobs"


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition(f"# {heading}\n")
    table = text[text.index("\n|") : text.index("\n\n", text.index("\n|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[3:]]


def words(heading: str) -> list[str]:
    """The words in the first column of a table."""
    return [word for row in rows(heading) for word in re.findall(r"`(\w+)`", row[0])]


def test_the_generated_parts_are_up_to_date() -> None:
    assert crds.referenced(PAGE) == PAGE.read_text(encoding="utf-8")


def test_every_reason_is_there_once_and_no_other() -> None:
    known = {value for name, value in vars(reasons).items() if name.isupper()} | set(PackedReason)
    told = words("Reasons and events")
    assert len(told) == len(set(told))
    assert known - set(told) == set(), "add a row to docs/dljob.md, Reasons and events"
    assert set(told) - known == set(), "no such reason: remove the row from docs/dljob.md"


def test_reasons_that_hold_a_job_back_are_said_to_be_events() -> None:
    told = {row[0].strip("`"): row[2] for row in rows("Reasons and events")}
    for reason in happenings._BLOCKED.values():
        assert told[reason] == "Warning", reason


def test_every_condition_is_there() -> None:
    before_the_end = [
        dljob.PREDICTED,
        dljob.QUEUED,
        dljob.PLACED,
        dljob.READY,
        dljob.STALLED,
        dljob.SUSPENDED,
        dljob.CURRENT,
    ]
    assert words("Conditions") == [*before_the_end, dljob.COMPLETE, dljob.FAILED]


def test_every_cause_of_an_attempts_end_is_there() -> None:
    assert sorted(words("What ends an attempt")) == sorted(Cause)


def test_every_variable_of_a_container_is_there() -> None:
    spec = dljob.Spec(replicas=2, template={})
    found = set(environment.variables(spec, attempt=1, master="host"))
    assert set(words("What the container finds")) == found | {runs.COMPLETION_INDEX}


def test_every_example_is_shown() -> None:
    shown = {Path(name).name for name in sections.commands(PAGE.read_text(encoding="utf-8")) if name.endswith(".yaml")}
    assert shown == {path.name for path in EXAMPLES.glob("*.yaml")}


def test_an_outdated_page_is_named_with_the_remedy(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    section = "cotenant crds --reference: DLJob columns"
    page.write_text(f"<!-- begin: {section} -->\nold\n<!-- end: {section} -->\n", encoding="utf-8")
    arguments: dict[str, Any] = {"write": None, "check": None, "reference": None, "check_reference": page}
    with pytest.raises(errors.PermanentError, match=r"page\.md is outdated: run `cotenant crds --reference"):
        crds.run(Namespace(**arguments))
    crds.run(Namespace(**arguments | {"reference": page, "check_reference": None}))
    crds.run(Namespace(**arguments))
    assert "PHASE" in page.read_text(encoding="utf-8")


def test_a_section_of_nothing_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    section = "cotenant crds --reference: Pod spec"
    page.write_text(f"<!-- begin: {section} -->\n<!-- end: {section} -->\n", encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match="must be one of DLJob"):
        crds.referenced(page)
