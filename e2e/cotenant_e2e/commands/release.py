"""Builds everything of a release and pushes images and chart to a registry; the Python package is checked alone."""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_e2e import progress
from cotenant_e2e.imaging import catalog, engines

if TYPE_CHECKING:
    from cotenant_e2e.imaging.build import Built

SUMMARY = "push images and chart to a registry of yours, by digest; check the Python package"
ARCHITECTURES: Final = ("amd64", "arm64")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--registry", required=True, metavar="HOST/FOLDER", help="where images and chart go")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for chart, package lists, summary")
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="where images are built")
    parser.add_argument("--version", default=catalog.VERSION, help="of images and chart (default: %(default)s)")
    parser.add_argument("--key", type=Path, help="cosign's private key (default: nothing is signed)")
    parser.add_argument("--ca", type=Path, help="certificates that the registry is verified by (default: the system's)")
    parser.add_argument("--base", default=catalog.BASE, help="Debian image of the build (default: %(default)s)")
    parser.add_argument("--revision", default="", help="of the source, for a label (default: none)")
    parser.add_argument(
        "--architecture",
        action="append",
        choices=ARCHITECTURES,
        dest="architectures",
        help="of the images, repeated for several (default: both)",
    )


def run(arguments: Namespace) -> int:
    """Build, push, sign; print what there is now, and what was not done.

    Raises:
        InvalidInputError: an argument cannot be used.
        PermanentError: a step failed; the message has the remedy.
    """
    from cotenant_e2e import binaries, versions
    from cotenant_e2e.releasing import credentials, package, place, publishing
    from cotenant_e2e.releasing.chart import Helm
    from cotenant_e2e.releasing.registry import Access, Registry
    from cotenant_e2e.releasing.signing import Cosign

    where = place.parse(arguments.registry)
    if not _VERSION.fullmatch(arguments.version):
        raise errors.InvalidInputError("VERSION", arguments.version, "name one as 1.2.3 or 1.2.3-rc.1")
    if arguments.key and not arguments.key.is_file():
        raise errors.InvalidInputError("KEY", arguments.key, "name a private key: cosign generate-key-pair makes one")
    shown = progress.of_terminal()
    logins = credentials.default_file(os.environ)
    access = Access(where.host, arguments.ca, credentials.read(logins, where.host))
    wanted = (versions.HELM, *((versions.COSIGN,) if arguments.key else ()))
    programs = binaries.find(environment=os.environ, progress=shown, programs=wanted)
    cosign = Cosign(programs[versions.COSIGN.name], logins, arguments.ca) if arguments.key else None
    tools = publishing.Tools(Helm(programs[versions.HELM.name], logins, arguments.ca), cosign, arguments.key)
    order = publishing.Order(where, arguments.version, arguments.out, arguments.images / "layers")
    with Registry(access) as registry:
        # Before minutes of building.
        publishing.require_new(order, registry)
    with shown.step("building and checking the Python package"):
        distributions = package.build(arguments.out / "python")
    built = _built(arguments)
    with Registry(access) as registry:
        released = publishing.publish(order, built, registry=registry, tools=tools, progress=shown)
    print("\n".join([*publishing.table(released), *_rest(arguments, distributions, built)]))
    return 0


def _built(arguments: Namespace) -> "Mapping[str, Sequence[Built]]":
    """Return the images by architecture; what is unchanged is not built again."""
    from cotenant_e2e.imaging import build

    found = {}
    for architecture in arguments.architectures or ARCHITECTURES:
        other = "" if architecture == engines.NATIVE else architecture
        order = build.Order(
            arguments.images / other, arguments.version, arguments.base, arguments.revision, architecture=other
        )
        found[architecture] = build.build(order, progress.of_terminal())
    return found


def _rest(arguments: Namespace, distributions: Sequence[Path], built: Mapping[str, object]) -> list[str]:
    """Return a line for each thing that was not done."""
    lines = [f"package  {path}: twine check passed; not published" for path in distributions]
    for architecture in ARCHITECTURES:
        if architecture not in built:
            lines.append(f"linux/{architecture}: not built, as ARCHITECTURES leaves it out")
        elif architecture != engines.NATIVE:
            lines.append(f"linux/{architecture}: cross-built on linux/{engines.NATIVE}; nothing of it was run")
    signed = f"signed with {arguments.key}" if arguments.key else "not signed: name cosign's key with KEY=cosign.key"
    return [*lines, f"images and chart: {signed}"]
