"""What a cluster's folder remembers of it, so that another process can ask, stop and restart. Starts nothing."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_api import errors
from cotenant_e2e import files
from cotenant_e2e.components import Settings
from cotenant_e2e.processes import Process

FORMAT = 1
FILE = "state.json"


@dataclass(frozen=True)
class Record:
    """One process, and how to start it again. `environment`: what it has beyond its starter's."""

    name: str
    process: Process
    argv: tuple[str, ...]
    environment: dict[str, str]
    ready: str


@dataclass(frozen=True)
class State:
    """A cluster and its processes, in the order of their start."""

    settings: Settings
    records: tuple[Record, ...] = ()

    def record(self, name: str) -> Record:
        """Return the process of this name.

        Raises:
            InvalidInputError: there is none.
        """
        for record in self.records:
            if record.name == name:
                return record
        known = ", ".join(record.name for record in self.records)
        raise errors.InvalidInputError("process", name, f"name one of these: {known}")

    def with_record(self, new: Record) -> "State":
        """With this process in the place of the one of the same name, else at the end."""
        if any(record.name == new.name for record in self.records):
            records = tuple(new if record.name == new.name else record for record in self.records)
        else:
            records = (*self.records, new)
        return dataclasses.replace(self, records=records)

    def without_record(self, name: str) -> "State":
        """Without the process of this name."""
        return dataclasses.replace(self, records=tuple(record for record in self.records if record.name != name))


def write(state: State) -> None:
    """Replace the state file in one step."""
    files.write_private(state.settings.directory / FILE, json.dumps(encode(state), indent=1).encode())


def read(directory: Path) -> State | None:
    """Return the state of the cluster in this folder; None where there is none.

    Raises:
        InvalidInputError: the file cannot be read.
    """
    path = directory / FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        return decode(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise errors.InvalidInputError(
            str(path), text, "remove the folder; its processes are to be stopped by hand"
        ) from error


def forget(directory: Path) -> None:
    """Remove the state file."""
    (directory / FILE).unlink(missing_ok=True)


def encode(state: State) -> dict[str, Any]:
    """As JSON values."""
    settings = dataclasses.asdict(state.settings)
    settings["directory"] = str(state.settings.directory)
    settings["programs"] = {name: str(path) for name, path in state.settings.programs.items()}
    return {"v": FORMAT, "settings": settings, "records": [dataclasses.asdict(record) for record in state.records]}


def decode(document: dict[str, Any]) -> State:
    """Return the inverse of `encode`."""
    if document["v"] != FORMAT:
        raise ValueError(document["v"])
    values = document["settings"]
    programs = {name: Path(path) for name, path in values["programs"].items()}
    settings = Settings(**(values | {"directory": Path(values["directory"]), "programs": programs}))
    records = [
        Record(**(values | {"process": Process(**values["process"]), "argv": tuple(values["argv"])}))
        for values in document["records"]
    ]
    return State(settings, tuple(records))
