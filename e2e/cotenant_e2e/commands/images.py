"""Builds the container images that are shipped, into docker archives."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_e2e import progress
from cotenant_e2e.imaging import catalog

SUMMARY = "build the container images of images/; print their sizes"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where NAME.tar and NAME.cdx.json go")
    parser.add_argument("--tag", default=catalog.VERSION, help="of every image (default: %(default)s)")
    parser.add_argument(
        "--base", default=catalog.BASE, help="Debian image that they are built in (default: %(default)s)"
    )
    parser.add_argument("--revision", default="", help="of the source, for a label (default: none)")


def run(arguments: Namespace) -> int:
    """Build what has changed, and print one line for each image."""
    from cotenant_e2e.imaging import build

    order = build.Order(arguments.out, arguments.tag, arguments.base, arguments.revision)
    built = build.build(order, progress.of_terminal())
    print("\n".join(build.table(built)))
    return 0
