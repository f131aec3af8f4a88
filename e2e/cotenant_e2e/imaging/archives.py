"""Reads docker archives as `docker save` and buildah write them: configuration, sizes, files. Never writes into one."""

import json
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Contents:
    """What an image is.

    Args:
        config: OCI image configuration (`User`, `Entrypoint`, `Labels`).
        files: path -> bytes of every regular file of its layers, the later layer's where two have one.
        names: of all entries: files, folders and links.
        open_to_all: those that any user may write to.
    """

    config: Mapping[str, Any]
    files: Mapping[str, int]
    names: frozenset[str]
    open_to_all: frozenset[str]

    @property
    def unpacked_mib(self) -> float:
        """What its files take, in MiB."""
        return sum(self.files.values()) / MIB


def read(archive: Path) -> Contents:
    """Return the contents of the image in an archive; of the last where there are several."""
    with tarfile.open(archive) as outer:
        manifest = _manifest(outer)
        config = json.load(_member(outer, manifest["Config"]))
        files: dict[str, int] = {}
        names: set[str] = set()
        open_to_all: set[str] = set()
        for layer in _layers(outer, manifest):
            for entry in layer:
                name = entry.name.removeprefix("./")
                names.add(name)
                if entry.mode & stat.S_IWOTH and not entry.issym():
                    open_to_all.add(name)
                if entry.isfile():
                    files[name] = entry.size
    return Contents(config["config"], files, frozenset(names), frozenset(open_to_all))


def texts(archive: Path, *, below: str, named: str = "") -> dict[str, str]:
    """Path -> text of files below a folder of the image. `named`: how their names end."""
    found: dict[str, str] = {}
    with tarfile.open(archive) as outer:
        for layer in _layers(outer, _manifest(outer)):
            for entry in layer:
                name = entry.name.removeprefix("./")
                if entry.isfile() and name.startswith(below) and name.endswith(named):
                    content = layer.extractfile(entry)
                    found[name] = content.read().decode() if content else ""
    return found


def _manifest(outer: tarfile.TarFile) -> dict[str, Any]:
    return dict(json.load(_member(outer, "manifest.json"))[-1])


def _layers(outer: tarfile.TarFile, manifest: Mapping[str, Any]) -> Iterator[tarfile.TarFile]:
    for name in manifest["Layers"]:
        with tarfile.open(fileobj=_member(outer, name)) as layer:
            yield layer


def _member(outer: tarfile.TarFile, name: str) -> Any:
    """Follows links: where two layers are alike, buildah writes one of them."""
    found = outer.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found
