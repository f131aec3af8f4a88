"""Tables keep to a width: closer, then without columns that may be spared, then with their longest words cut."""

import pytest

from cotenant_api import findings, tables

COLUMNS = (
    tables.words("NODE"),
    tables.words("MODEL"),
    tables.number("LEAST", spare=2),
    tables.number("MIB", spare=1),
    tables.words("MESSAGE"),
    tables.words("UUID", wide=True),
)
ROWS = [("node-1", "NVIDIA-H100-80GB-HBM3", 1, 81_559, "waits for a pod that never ends " * 4, "GPU-" + "0" * 36)]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160, 200])
def test_no_line_is_longer_than_the_width(width: int) -> None:
    assert max(map(len, tables.lines(COLUMNS, ROWS, tables.Look(width=width)))) <= width


def test_without_a_width_nothing_is_left_out() -> None:
    title, row = tables.lines(COLUMNS, ROWS, tables.Look())
    assert title.split() == ["NODE", "MODEL", "LEAST", "MIB", "MESSAGE"]
    assert ROWS[0][4].strip() in row


def test_what_has_room_is_shown_whole() -> None:
    assert list(tables.lines(COLUMNS, ROWS, tables.Look(width=200))) == list(tables.lines(COLUMNS, ROWS, tables.Look()))


def test_columns_go_before_words_are_cut() -> None:
    rows = [("node-1", "NVIDIA-H100-80GB-HBM3", 1, 81_559, "short", "")]
    title, row = tables.lines(COLUMNS, rows, tables.Look(width=45))
    assert title.split() == ["NODE", "MODEL", "MIB", "MESSAGE"] or title.split() == ["NODE", "MODEL", "MESSAGE"]
    assert "NVIDIA-H100-80GB-HBM3" in row


def test_wide_columns_are_for_who_asks_for_them() -> None:
    _, row = tables.lines(COLUMNS, ROWS, tables.Look(wide=True, width=80))
    assert row.endswith("0" * 36)


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_what_a_doctor_finds_keeps_to_the_width(width: int) -> None:
    found = [
        findings.ok("CustomResourceDefinition/packingpolicies.cotenant.dev", "as this release defines it"),
        findings.warning(
            "Namespace/team", "who may make pods there may use every GPU of a node " * 3, "kubectl label " * 9
        ),
    ]
    shown = list(findings.lines(list(findings.stamped(found, check="pod-security")), tables.Look(width=width)))
    assert max(map(len, shown)) <= width
    assert "".join(shown).count("as this release defines it") == 1
