"""Graphs that ship with a set: in its folder `graphs`, whose `manifest.json` names the file of each job."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from cotenant_api.graph import Graph


class Graphs(Mapping[str, Graph]):
    """The graphs of a set by job; each is read when it is asked for.

    Args:
        folder: of the set.

    Raises:
        InvalidInputError: by reading, where a graph is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "graphs"
        self._files: Mapping[str, str] = json.loads((self._folder / "manifest.json").read_bytes())

    def __getitem__(self, job: str) -> Graph:
        file = self._files[job]
        return Graph.read((self._folder / file).read_bytes(), source=file)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
