"""The table of XIDs."""

import json
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.gpus import xids
from cotenant_deviceplugin.gpus.hardware import RecoveryAction
from cotenant_deviceplugin.gpus.xids import Class

TABLE = xids.load()
ROW = {"xid": 13, "mnemonic": "M", "meaning": "what", "class": "Application", "source": "here"}


def text(*rows: dict[str, object]) -> str:
    return json.dumps({"sources": {"here": "somewhere"}, "xids": rows})


@pytest.mark.parametrize(
    ("xid", "class_"),
    [
        *((xid, Class.APPLICATION) for xid in (13, 31, 43, 45, 68, 109)),
        *((xid, Class.RESET) for xid in (46, 48, 64, 95, 119, 120, 140, 9999)),
        (63, Class.DRAIN),
        (79, Class.REBOOT),
        (92, Class.IGNORE),
        (154, Class.RESET),
        (94, Class.DRAIN),
    ],
)
def test_what_an_xid_means_where_the_driver_tells_no_recovery_action(xid: int, class_: Class) -> None:
    assert xids.meant(TABLE, xid, None) is class_


@pytest.mark.parametrize(
    ("action", "class_"),
    [
        (RecoveryAction.NONE, Class.APPLICATION),
        (RecoveryAction.DRAIN_P2P, Class.DRAIN),
        (RecoveryAction.GPU_RESET, Class.RESET),
        (RecoveryAction.DRAIN_AND_RESET, Class.RESET),
        (RecoveryAction.NODE_REBOOT, Class.REBOOT),
        (RecoveryAction.UNKNOWN, Class.RESET),
    ],
)
def test_the_recovery_field_is_obeyed_where_the_table_says_so(action: RecoveryAction, class_: Class) -> None:
    assert xids.meant(TABLE, 94, action) is class_


@pytest.mark.parametrize(
    ("xid", "tells"), [(13, True), (31, True), (79, True), (9999, True), (43, False), (45, False), (92, False)]
)
def test_a_process_that_was_ended_tells_of_no_fault(xid: int, *, tells: bool) -> None:
    assert xids.tells_of_fault(TABLE, xid) is tells


def test_every_row_says_what_it_is_and_where_that_is_written() -> None:
    assert all(row.meaning and row.source for row in TABLE.values())
    assert xids.described(TABLE, 79) == "XID 79 (the GPU has fallen off the bus)"
    assert xids.described(TABLE, 9999) == "XID 9999 (unknown to this release)"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "must be a table of XIDs"),
        (text({**ROW, "class": "Fine"}), "must be a table of XIDs"),
        (text({**ROW, "xid": 0}), "must be a table of XIDs"),
        (text(ROW, ROW), "is there twice"),
        (text({**ROW, "source": "there"}), "must be one of `sources`"),
        (text({**ROW, "class": "Recovery"}), "belongs to class Recovery"),
        (text({**ROW, "untold": "Drain"}), "belongs to class Recovery"),
        (text({**ROW, "class": "Recovery", "untold": "Recovery"}), "belongs to class Recovery"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(broken: str, words: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=words):
        xids.parsed(broken, source="table")


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="must be a readable file"):
        xids.load(tmp_path / "none.json")
