"""What a doctor finds, as people and programs read it."""

import json

import pytest
import yaml

from cotenant_api import findings, tables

FOUND = tuple(
    findings.stamped(
        [
            findings.ok("cluster", "is well"),
            findings.warning("Node/n1", "is \x1b[2Jodd", "look at it"),
            findings.error("Pod/team/a", "is broken", "mend it"),
        ],
        check="health",
    )
)
REPORT = findings.Report(taken="2026-01-31T12:00:00Z", findings=FOUND)

TEXT = """\
LEVEL     CHECK    WHERE        WHAT
ok        health   cluster      is well
warning   health   Node/n1      is \ufffd[2Jodd
          remedy: look at it
error     health   Pod/team/a   is broken
          remedy: mend it

1 errors, 1 warnings, 1 ok
"""


def test_people_read_a_table_with_a_remedy_below_what_is_wrong() -> None:
    assert findings.rendered(REPORT, form="table", look=tables.Look()) == TEXT


def test_colours_change_no_column() -> None:
    coloured = findings.rendered(REPORT, form="wide", look=tables.Look(colours=True))
    assert coloured.count("\x1b[") == 2 * len(FOUND)
    for code in ("\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == TEXT


def test_programs_read_one_document_with_its_version() -> None:
    read = json.loads(findings.rendered(REPORT, form="json", look=tables.Look(colours=True)))
    assert read == yaml.safe_load(findings.rendered(REPORT, form="yaml", look=tables.Look(colours=True)))
    assert read["v"] == 1
    assert read["findings"][2] == {
        "check": "health",
        "level": "error",
        "where": "Pod/team/a",
        "what": "is broken",
        "remedy": "mend it",
    }


@pytest.mark.parametrize(("count", "code"), [(1, 0), (2, 0), (3, findings.ERRORS_FOUND)])
def test_errors_alone_change_the_exit_code(count: int, code: int) -> None:
    assert findings.exit_code(FOUND[:count]) == code
