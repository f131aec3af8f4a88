"""What an XID means for its GPU: a table, as data (xids.json), and how it is read. Pure but for reading the file."""

import enum
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from cotenant_api import documents, errors
from cotenant_deviceplugin.gpus import hardware

TABLE = Path(__file__).with_name("xids.json")


class Class(enum.StrEnum):
    """What has to be done."""

    IGNORE = "Ignore"
    """Nothing: no process is affected."""
    APPLICATION = "Application"
    """A process has ended by its own fault, and under MPS its neighbours with it; the GPU is well."""
    DRAIN = "Drain"
    """No new work; what runs may end."""
    RESET = "Reset"
    """The GPU must be reset before it is used again."""
    REBOOT = "Reboot"
    """So must the machine."""
    RECOVERY = "Recovery"
    """Whatever the driver's recovery field asks for."""


class XID(documents.Model):
    """One row."""

    xid: int = Field(ge=1)
    mnemonic: str = Field(min_length=1)
    meaning: str = Field(min_length=1)
    class_: Class = Field(alias="class")
    source: str
    untold: Class | None = None
    """Of RECOVERY alone: what to assume where the driver has no such field."""
    follows: bool = False
    """Whether it only tells of what another event has caused, or of a process that was ended on purpose."""


class _File(documents.Model):
    sources: dict[str, str]
    xids: tuple[XID, ...]


Table = Mapping[int, XID]

_ACTIONS = {
    hardware.RecoveryAction.NONE: Class.APPLICATION,
    hardware.RecoveryAction.DRAIN_P2P: Class.DRAIN,
    hardware.RecoveryAction.NODE_REBOOT: Class.REBOOT,
    hardware.RecoveryAction.SYSTEM_REBOOT: Class.REBOOT,
}


def load(path: Path = TABLE) -> Table:
    """Return the table of this package, or another. InvalidInputError: it contradicts itself or is no such table."""
    try:
        text = path.read_text()
    except OSError as error:
        raise errors.InvalidInputError(str(path), error.strerror, "must be a readable file") from error
    return parsed(text, source=path.name)


def parsed(text: str, *, source: str) -> Table:
    """Return the table of a text."""
    try:
        file = _File.model_validate_json(text)
    except ValueError as error:
        raise errors.InvalidInputError(source, str(error), "must be a table of XIDs") from error
    table: dict[int, XID] = {}
    for row in file.xids:
        where = f"{source}: XID {row.xid}"
        if row.xid in table:
            raise errors.InvalidInputError(where, row.mnemonic, "is there twice: leave one")
        if row.source not in file.sources:
            raise errors.InvalidInputError(f"{where}: source", row.source, "must be one of `sources`")
        if (row.class_ is Class.RECOVERY) != (row.untold is not None) or row.untold is Class.RECOVERY:
            raise errors.InvalidInputError(f"{where}: untold", row.untold, "belongs to class Recovery, and to no other")
        table[row.xid] = row
    return table


def meant(table: Table, xid: int, action: hardware.RecoveryAction | None) -> Class:
    """Return what an XID demands, given what the driver asks for (None: it does not tell). Never RECOVERY.

    An XID that the table does not know demands a reset: nobody has shown that less would do.
    """
    row = table.get(xid)
    if row is None:
        return Class.RESET
    if row.class_ is not Class.RECOVERY:
        return row.class_
    if action is None:
        return row.untold or Class.RESET
    return _ACTIONS.get(action, Class.RESET)


def tells_of_fault(table: Table, xid: int) -> bool:
    """Return whether an XID tells of a fault, not of what follows from one or of a process that was ended."""
    row = table.get(xid)
    return row is None or (row.class_ is not Class.IGNORE and not row.follows)


def described(table: Table, xid: int) -> str:
    """For a person."""
    row = table.get(xid)
    return f"XID {xid} ({row.meaning if row else 'unknown to this release'})"
