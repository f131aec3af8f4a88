"""Finds the Kubernetes programs that the kit runs: named by the user, on PATH, in the cache, or built."""

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e import commandline, configuration, recipes, versions
from cotenant_e2e.building import Builder
from cotenant_e2e.progress import Progress
from cotenant_e2e.recipes import Target
from cotenant_e2e.versions import Program

VARIABLE = "COTENANT_KUBERNETES_BIN"
TOOLS = configuration.KUBERNETES / "tools"


@dataclass(frozen=True)
class Search:
    """What was looked for, and how to get what was not found.

    Attributes:
        found: the programs that the machine has.
        missing: what must come from the cache, where it may have been built before.
        builder: of what is missing.
    """

    found: Mapping[str, Path]
    missing: Sequence[Target]
    builder: Builder

    @property
    def must_build(self) -> bool:
        """Whether something is not in the cache either: minutes."""
        return not all(self.builder.path(target).exists() for target in self.missing)

    def complete(self) -> dict[str, Path]:
        """Return the path of every program; builds what must be built.

        Raises:
            PermanentError: it cannot be built.
        """
        if self.must_build:
            self.builder.build(self.missing)
        return {**self.found, **{target.program: self.builder.path(target) for target in self.missing}}


def find(
    *,
    environment: Mapping[str, str],
    progress: Progress,
    tools: Path = TOOLS,
    programs: Sequence[Program] = versions.PROGRAMS,
) -> dict[str, Path]:
    """Return the path of every program: what `search` finds, and the rest built.

    Raises:
        InvalidInputError: COTENANT_KUBERNETES_BIN names no folder, or a program there has another version.
        PermanentError: what is missing cannot be built.
    """
    return search(environment=environment, progress=progress, tools=tools, programs=programs).complete()


def search(
    *,
    environment: Mapping[str, str],
    progress: Progress,
    tools: Path = TOOLS,
    programs: Sequence[Program] = versions.PROGRAMS,
) -> Search:
    """Look for every program; build nothing.

    Args:
        environment: where COTENANT_KUBERNETES_BIN, PATH, XDG_CACHE_HOME and HOME are read.
        progress: shows what is built.
        tools: the pinned Go modules.
        programs: those of the control plane; a real node needs `versions.NODE_PROGRAMS` too.

    Raises:
        InvalidInputError: COTENANT_KUBERNETES_BIN names no folder, or a program there has another version.
    """
    with ThreadPoolExecutor(len(programs)) as pool:
        ready = dict(zip(programs, pool.map(lambda p: present(p, environment), programs), strict=True))
    missing = {program.name for program, path in ready.items() if path is None}
    return Search(
        found={program.name: path for program, path in ready.items() if path},
        missing=[target for target in recipes.TARGETS if target.program in missing],
        builder=Builder(tools, cache_directory(environment), environment, progress),
    )


def present(program: Program, environment: Mapping[str, str]) -> Path | None:
    """Return the program that the user named, or that PATH leads to, if its version fits; else None.

    Raises:
        InvalidInputError: the user named a folder that is none, or holds another version.
    """
    named = environment.get(VARIABLE)
    if named and (path := _named(program, Path(named))):
        return path
    on_path = shutil.which(program.name, path=environment.get("PATH"))
    if on_path and program.requirement.allows(version_of(program, Path(on_path))):
        return Path(on_path).absolute()
    return None


def version_of(program: Program, path: Path) -> versions.Version | None:
    """Return the version that it prints; None where it prints none."""
    return versions.parse(commandline.ask([str(path), *program.ask]) or "")


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the folder of everything that the kit keeps.

    As the XDG rules say, a relative XDG_CACHE_HOME counts as none.
    """
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    home = Path(environment.get("HOME") or Path.home())
    return (base if base.is_absolute() else home / ".cache") / "cotenant"


def _named(program: Program, directory: Path) -> Path | None:
    """Return the program in the folder that the user named; None where it holds none of this name."""
    if not directory.is_dir():
        raise errors.InvalidInputError(
            VARIABLE, str(directory), "name a folder of Kubernetes 1.36 programs, or unset it"
        )
    path = (directory / program.name).absolute()
    if not path.exists():
        return None
    version = version_of(program, path)
    if not program.requirement.allows(version):
        remedy = (
            f"{program.name} there is version {versions.show(version)}, {program.requirement.text} is needed; "
            "name another folder, or unset it to build what is missing"
        )
        raise errors.InvalidInputError(VARIABLE, str(directory), remedy)
    return path
