"""Builds every image of the catalog into docker archives, each with its list of packages; what is unchanged stays."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_e2e import binaries, configuration, files
from cotenant_e2e.imaging import archives, base, bom, catalog, engines
from cotenant_e2e.imaging.catalog import Image
from cotenant_e2e.imaging.engines import Engine, Request
from cotenant_e2e.progress import Progress

SPACE_MIB: Final = 3 * 1024
INDEX_KEYS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
"""What of pip's configuration says how to reach an index, and means the same in another place."""


@dataclass(frozen=True)
class Built:
    """One image in a folder. `fresh`: it was built now."""

    image: Image
    tag: str
    archive: Path
    fresh: bool

    @property
    def bom(self) -> Path:
        """What it is made of, CycloneDX."""
        return self.archive.with_suffix(".cdx.json")


@dataclass(frozen=True)
class Order:
    """What is wanted.

    Args:
        folder: where the archives go.
        tag: of every image.
        base: image that the steps of a build run in.
        revision: of the source, for a label, where somebody names one.
        architecture: one that is not this machine's, such as `arm64`; empty: this machine's.
    """

    folder: Path
    tag: str = catalog.VERSION
    base: str = catalog.BASE
    revision: str = ""
    architecture: str = ""

    def reference(self, image: Image) -> str:
        """Return the name of an image on this machine; another architecture's has a name of its own."""
        return image.reference(f"{self.tag}-{self.architecture}" if self.architecture else self.tag)

    @property
    def labels(self) -> dict[str, str]:
        """Those that change with the release."""
        prefix = "org.opencontainers.image"
        revision = {f"{prefix}.revision": self.revision} if self.revision else {}
        return {f"{prefix}.version": self.tag} | revision


def staged(context: Path) -> Path:
    """Return the build's context: the scripts, the locks and the wheel of this checkout, and nothing else."""
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir()
    for name in ("steps", "locks"):
        shutil.copytree(catalog.FOLDER / name, context / name)
    (context / "wheel").mkdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(context / "wheel")]
    done = subprocess.run(command, cwd=configuration.REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.PermanentError(f"the wheel cannot be built: {errors.shortened(done.stderr.strip())}")
    return context


def build(
    order: Order,
    progress: Progress,
    images: Sequence[Image] = catalog.IMAGES,
    *,
    find: Callable[[], Engine] = engines.find,
    stage: Callable[[Path], Path] = staged,
) -> list[Built]:
    """Have every image in the folder as `NAME.tar`, with `NAME.cdx.json` beside it.

    `find`: the engine, once something is to be built; `stage`: makes a folder the context, with the wheel in `wheel/`.

    Raises:
        PermanentError: no engine, no base, no space, or a step of a Dockerfile failed; the message has the remedy.
    """
    folder = order.folder.resolve()
    files.make_directory(folder, remedy="choose another folder with --out")
    with files.locked(folder / "lock", waiting=lambda: progress.step("waiting for another build")):
        context = stage(folder / "context")
        (wheel,) = (context / "wheel").glob("*.whl")
        more = (order.tag, order.base, *order.labels.values(), order.architecture)
        digests = {each.name: each.digest(wheel, *more) for each in images}
        stale = [each for each in images if _stamp(folder, each) != digests[each.name]]
        if stale:
            files.require_space(folder, mib=SPACE_MIB, remedy="free some, or choose another folder with --out")
            engine = find()
            _have_base(engine, order.base, folder, progress)
            with _secrets() as secrets:
                for each in stale:
                    reference = order.reference(each)
                    where = (each.dockerfile, context, order.base)
                    request = Request(reference, *where, order.labels, secrets, order.architecture)
                    with progress.step(f"building {reference} with {engine.name}"):
                        _build(engine, request, folder, name=each.name)
                    (folder / f"{each.name}.digest").write_text(digests[each.name])
        return [Built(each, order.tag, folder / f"{each.name}.tar", each in stale) for each in images]


def _stamp(folder: Path, image: Image) -> str:
    stamp = folder / f"{image.name}.digest"
    whole = all((folder / f"{image.name}.{kind}").exists() for kind in ("tar", "cdx.json", "digest"))
    return stamp.read_text() if whole else ""


def _build(engine: Engine, request: Request, folder: Path, *, name: str) -> None:
    (folder / f"{name}.digest").unlink(missing_ok=True)
    with (folder / f"{name}.log").open("w") as log:
        engine.build(request, log)
    archive = folder / f"{name}.tar"
    engine.save(request.reference, archive)
    text = bom.document(archive, name=f"cotenant/{name}", version=request.reference.rpartition(":")[2])
    archive.with_suffix(".cdx.json").write_text(text)


def _have_base(engine: Engine, reference: str, folder: Path, progress: Progress) -> None:
    """Pull the base; where it cannot be pulled, make one of its name, and say so each time it is used."""
    mark = binaries.cache_directory(os.environ) / "images" / f"{re.sub(r'[^a-z0-9.-]+', '_', reference)}.stand-in"
    with progress.step(f"base {reference}"):
        there = engine.pull(reference)
        if not there:
            base.make(engine, reference, scratch=folder)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    if mark.exists():
        progress.note(f"{reference}: {base.NOTICE}")


@contextmanager
def _secrets() -> Iterator[Mapping[str, Path]]:
    """Yield how to reach the package index as this machine does; none of it stays in an image."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    with tempfile.TemporaryDirectory() as folder:
        pip = Path(folder) / "pip.conf"
        pip.write_text(index_configuration(listed))
        certificates = Path(settings(listed).get("cert", ""))
        yield {"pip": pip} | ({"ca": certificates} if certificates.is_file() else {})


def index_configuration(listed: str) -> str:
    """Return a pip.conf with how to reach the index. `listed`: see `settings`."""
    found = settings(listed)
    lines = [f"{key} = {found[key]}" for key in INDEX_KEYS if key in found]
    return "\n".join(["[global]", *lines, ""])


def settings(listed: str) -> dict[str, str]:
    """Pip's settings. `listed`: what `pip config list` prints (`global.index-url='...'`, `:env:.cert='...'`)."""
    pairs = (line.partition("=") for line in listed.splitlines())
    return {name.rpartition(".")[2]: value.strip("'\"") for name, _, value in pairs}


def table(built: Sequence[Built]) -> list[str]:
    """One line for each image."""
    lines = [f"{'image':<34} {'unpacked MiB':>12}  {'user':<12} {'packages':>8}  archive"]
    for each in built:
        contents = archives.read(each.archive)
        packages = len(json.loads(each.bom.read_text())["components"])
        user = contents.config.get("User") or "0"
        reference = each.image.reference(each.tag)
        lines.append(f"{reference:<34} {contents.unpacked_mib:>12.1f}  {user:<12} {packages:>8}  {each.archive}")
    return lines
