"""Generated sections of docs/: which there are, and what belongs into each. Reads the repository, writes nothing.

Fields of our kinds are `cotenant crds --reference`'s; this adds the command line, the chart's values and the metrics.
"""

from importlib import metadata
from pathlib import Path
from typing import Final

from cotenant_api import cli, errors, sections
from cotenant_api.commands import crds
from cotenant_e2e import configuration
from cotenant_e2e.documentation import arguments, tables

FOLDER: Final = configuration.REPOSITORY / "docs" / "reference"
COMMAND: Final = "python -m cotenant_e2e reference --write"
_OURS: Final = "cotenant_e2e reference: "
_CRDS: Final = "cotenant crds --reference: "


def pages(folder: Path = FOLDER) -> dict[Path, str]:
    """Every page below a folder with its generated sections as they should be, where it has any.

    Raises:
        InvalidInputError: a section names nothing that is generated.
    """
    return {page: filled(page) for page in sorted(folder.rglob("*.md")) if sections.commands(sections.read(page))}


def filled(page: Path) -> str:
    """The text of one page with its sections as they should be.

    Raises:
        InvalidInputError: a section names nothing that is generated.
    """
    text = sections.read(page)
    commands = sections.commands(text)
    for command in commands:
        if command.startswith(_OURS):
            text = sections.filled(page, text, section(command.removeprefix(_OURS)), command=command)
    if all(command.startswith(_CRDS) for command in commands):
        return crds.referenced(page)
    return text


def section(name: str) -> list[str]:
    """The lines of a section: `commands`, `values`, `metrics COMPONENT`.

    Raises:
        InvalidInputError: there is no such section.
    """
    what, _, component = name.partition(" ")
    if what == "commands":
        return commands()
    if what == "values":
        return tables.values()
    if what == "metrics" and component in tables.COMPONENTS:
        return tables.metrics(component)
    raise errors.InvalidInputError("section", name, "must be commands, values, or metrics and a component's name")


def commands() -> list[str]:
    """Sections for all subcommands of `cotenant`."""
    entries = {entry.name: entry for entry in metadata.entry_points(group=cli.GROUP)}
    return "\n".join(arguments.pages(cli.parser(entries))).rstrip("\n").split("\n")
