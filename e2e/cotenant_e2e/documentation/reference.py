"""Generated sections of docs/ and of the chart's README: which there are, and what belongs into each.

Reads the repository, writes nothing. Fields of our kinds are `cotenant crds --reference`'s; this adds the command line,
the chart's values and the metrics.
"""

from importlib import metadata
from pathlib import Path
from typing import Final

from cotenant_api import cli, errors, sections
from cotenant_api.commands import crds
from cotenant_e2e import charts, configuration
from cotenant_e2e.documentation import arguments, tables

FOLDERS: Final = (configuration.REPOSITORY / "docs" / "reference", charts.CHART)
"""Where pages with generated sections are."""
COMMAND: Final = "python -m cotenant_e2e reference --write"
_OURS: Final = "cotenant_e2e reference: "
_CRDS: Final = "cotenant crds --reference: "


def pages(*folders: Path) -> dict[Path, str]:
    """Return every page below these folders that has generated sections, with the sections as they should be.

    Without an argument: all that there are.

    Raises:
        InvalidInputError: a section names nothing that is generated.
    """
    found = (page for folder in folders or FOLDERS for page in sorted(folder.rglob("*.md")))
    return {page: filled(page) for page in found if sections.commands(sections.read(page))}


def filled(page: Path) -> str:
    """Return the text of one page with its sections as they should be.

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
    """Return the lines of a section: `commands`, `values`, `metrics COMPONENT`.

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
