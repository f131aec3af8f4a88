"""Programs and displays that stand in for real ones in the tests of the kit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant_e2e import versions

PRINTS = {
    "etcd": "etcd Version: 3.6.8",
    "kubectl": "Client Version: v1.36.4",
    "kwok": "kwok version v0.8.0 go1.26.8 (linux/amd64)",
}


class RecordedProgress:
    """Remembers the steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.details: list[str] = []

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show this step until the block ends."""
        self.steps.append(what)
        yield self.details.append

    def note(self, text: str) -> None:
        """Say something once."""
        self.details.append(text)


def write_program(path: Path, *lines: str) -> Path:
    """A shell script with these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def write_kubernetes(directory: Path, **printed: str) -> Path:
    """A folder of every program that the kit runs. `printed`: what one of them prints instead (`kubectl="v1.32.4"`)."""
    for program in versions.PROGRAMS:
        text = printed.get(program.name.replace("-", "_"), PRINTS.get(program.name, "Kubernetes v1.36.4"))
        write_program(directory / program.name, f'echo "{text}"')
    return directory


def write_go(
    path: Path, *, version: str = "1.26.8", listed: str = "true", build: str = 'echo built > "$output"'
) -> Path:
    """A go command. `listed`: what `go list` does. `build`: what `go build` does; `$output` is what it shall write,
    `$program` the package.
    """
    return write_program(
        path,
        f'[ "$1" = version ] && echo "go version go{version} linux/amd64" && exit',
        f'[ "$1" = list ] && {{ {listed}; exit; }}',
        'while [ "$1" != -o ]; do shift; done',
        "output=$2 program=$3",
        build,
    )
