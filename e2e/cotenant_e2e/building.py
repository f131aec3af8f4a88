"""Builds Kubernetes programs into the cache: each appears there whole or not at all, and one build runs at a time."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cotenant_api import errors
from cotenant_e2e import commandline, files, recipes, toolchain
from cotenant_e2e.progress import Detail, Progress
from cotenant_e2e.recipes import Target

COLD_SPACE_MIB = 6 * 1024
WARM_SPACE_MIB = 1024
SPACE_REMEDY = "free some, or set XDG_CACHE_HOME to a folder on another disk"


@dataclass(frozen=True)
class Builder:
    """Builds into a cache.

    Args:
        tools: the folder of the pinned modules (`NAME/go.mod`) and of `go.txt`.
        cache: the folder that keeps what is built.
        environment: that of the go command, as far as it may reach it.
        progress: shows what is built.
    """

    tools: Path
    cache: Path
    environment: Mapping[str, str]
    progress: Progress

    def path(self, target: Target) -> Path:
        """Where the program is, or will be when it is built."""
        module = self.tools / target.tool
        name = recipes.folder(target, go_mod=(module / "go.mod").read_text(), go_sum=(module / "go.sum").read_text())
        return self.cache / "bin" / name / target.program

    def build(self, targets: Sequence[Target]) -> None:
        """Build those that are not there yet.

        Raises:
            PermanentError: no Go, no space, no network, or the cache cannot be written; the message has the remedy.
        """
        files.make_directory(self.cache, remedy="set XDG_CACHE_HOME to a folder that can be written")
        with files.locked(self.cache / "build.lock", waiting=lambda: self.progress.step("waiting for another build")):
            missing = [target for target in targets if not self.path(target).exists()]
            if missing:
                with (self.cache / "build.log").open("w") as log:
                    self._build(missing, log)

    def _build(self, targets: Sequence[Target], log: TextIO) -> None:
        go_cache = recipes.go_cache(self.environment)
        needed = WARM_SPACE_MIB if go_cache.exists() else COLD_SPACE_MIB
        files.require_space(self.cache, mib=needed, remedy=SPACE_REMEDY)
        # Go does not fail when its own cache is full: it compiles the same packages for every program again.
        files.require_space(go_cache, mib=needed, remedy="free some, or set GOCACHE to a folder on another disk")
        pins = self.tools / "go.txt"
        go = toolchain.find(pins, cache=self.cache, environment=self.environment, progress=self.progress)
        packages = self._download(go, targets, log)
        compiled = 0
        for number, target in enumerate(targets, 1):
            with self.progress.step(f"building {target.program} ({number} of {len(targets)})") as detail:
                compiled += self._build_one(go, target, log, _Counting(detail, compiled, f"of {packages} packages"))

    def _download(self, go: Path, targets: Sequence[Target], log: TextIO) -> int:
        """Return how many packages there are to compile, those that programs share counted once."""
        packages: set[str] = set()
        with self.progress.step("downloading Go modules") as detail:
            modules = _Counting(detail, 0, "modules")
            for tool in dict.fromkeys(target.tool for target in targets):
                wanted = [target for target in targets if target.tool == tool]
                command = recipes.download_command(go, [target.package for target in wanted])
                lines = self._go(
                    command, wanted[0], log, lambda line: modules(line) if line.startswith("go: ") else None
                )
                packages.update(line for line in lines if not line.startswith("go: "))
        return len(packages)

    def _build_one(self, go: Path, target: Target, log: TextIO, printed: Callable[[str], None]) -> int:
        """Return how many packages were compiled."""
        result = self.path(target)
        result.parent.mkdir(parents=True, exist_ok=True)
        for abandoned in result.parent.glob(f".{result.name}.*.partial"):
            abandoned.unlink()
        # Of this process alone: the go command of a builder that was killed may still be writing its own.
        partial = result.with_name(f".{result.name}.{os.getpid()}.partial")
        version = recipes.module_version((self.tools / target.tool / "go.mod").read_text(), target.module)
        command = recipes.build_command(go, target, version=version, output=partial)
        lines = self._go(command, target, log, printed)
        partial.rename(result)
        return len(lines)

    def _go(self, argv: Sequence[str], target: Target, log: TextIO, printed: Callable[[str], None]) -> list[str]:
        """Run go in the folder of a target's module; `printed` gets each line, and the result is all of them."""
        lines: list[str] = []

        def line(text: str) -> None:
            lines.append(text)
            printed(text)

        environment = recipes.go_environment(self.environment, cgo=target.cgo)
        code = commandline.follow(argv, environment=environment, directory=self.tools / target.tool, log=log, line=line)
        if code:
            raise errors.PermanentError(recipes.explanation(lines, command=argv[1], log=Path(log.name)))
        return lines


class _Counting:
    """Shows how many lines have come, from a number on."""

    def __init__(self, detail: Detail, count: int, what: str) -> None:
        self._detail, self._count, self._what = detail, count, what

    def __call__(self, _line: str) -> None:
        self._count += 1
        self._detail(f"{self._count} {self._what}")
