"""Packs the chart of a release: its values name the registry and the images' digests; and sends it by helm."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_e2e import charts
from cotenant_e2e.releasing.place import Place

_DIGEST: Final = re.compile(r"^Digest: (sha256:[0-9a-f]{64})$", re.MULTILINE)
_REGISTRY: Final = '  registry: ""\n'
_REPOSITORY: Final = "  repository: cotenant\n"
_DIGESTS: Final = re.compile(r"^  digests: \{[^}\n]*\}\n", re.MULTILINE)


@dataclass(frozen=True)
class Helm:
    """The program, and how it reaches the registry. `logins`: a file of docker's form; `ca`: None for the system's."""

    program: Path
    logins: Path
    ca: Path | None = None

    def package(self, folder: Path, place: Place, digests: Mapping[str, str], *, version: str) -> Path:
        """Write the chart's archive into a folder. `digests`: image -> digest of its index."""
        with tempfile.TemporaryDirectory() as scratch:
            chart = Path(scratch) / charts.CHART.name
            shutil.copytree(charts.CHART, chart)
            values = chart / "values.yaml"
            values.write_text(with_images(values.read_text(), place, digests))
            versions = ("--version", version, "--app-version", version)
            self._run("package", str(chart), *versions, "--destination", str(folder))
        return folder / f"{charts.CHART.name}-{version}.tgz"

    def push(self, archive: Path, place: Place) -> str:
        """Send a packed chart; the digest of its manifest."""
        said = self._run("push", str(archive), place.charts, *self._reaching())
        found = _DIGEST.search(said)
        if not found:
            raise errors.PermanentError(f"helm push named no digest: {errors.shortened(said.strip())}")
        return found.group(1)

    def _reaching(self) -> list[str]:
        return ["--registry-config", str(self.logins), *(["--ca-file", str(self.ca)] if self.ca else [])]

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.program), *arguments], capture_output=True, text=True, check=False, env=dict(os.environ)
        )
        if done.returncode:
            raise errors.PermanentError(f"helm {arguments[0]} failed: {errors.shortened(done.stderr.strip())}")
        return done.stdout + done.stderr


def with_images(values: str, place: Place, digests: Mapping[str, str]) -> str:
    """Return the chart's values with registry, folder and digests of the images, and every comment as it was.

    Raises:
        InvalidInputError: the values are not written as this function expects them.
    """
    listed = ", ".join(f"{name}: {digest}" for name, digest in sorted(digests.items()))
    head, image, tail = _around(values)
    image = _replaced(image, re.escape(_REGISTRY), f"  registry: {place.host}\n")
    image = _replaced(image, re.escape(_REPOSITORY), f"  repository: {place.folder}\n")
    image = _replaced(image, _DIGESTS.pattern, f"  digests: {{{listed}}}\n")
    return head + image + tail


def _around(values: str) -> Sequence[str]:
    """Return the text before the block `image`, the block, and the text after it."""
    found = re.search(r"^image:\n(?:[ \t].*\n|\n(?=[ \t]))*", values, re.MULTILINE)
    if not found:
        raise errors.InvalidInputError("values.yaml", "image", "write the block `image` at the top level")
    return values[: found.start()], found.group(), values[found.end() :]


def _replaced(text: str, pattern: str, new: str) -> str:
    changed, count = re.subn(pattern, lambda _: new, text, flags=re.MULTILINE)
    if count != 1:
        raise errors.InvalidInputError(
            "values.yaml", pattern, f"write this line once in the block `image`, not {count} times"
        )
    return changed
