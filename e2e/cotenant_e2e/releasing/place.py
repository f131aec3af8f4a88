"""Parses where a release goes: a registry's host and a folder in it. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors

_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_FOLDER: Final = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*")
CHARTS: Final = "charts"
"""The chart lies in this folder beside the images."""


@dataclass(frozen=True)
class Place:
    """A folder of a registry. `host`: with its port; `folder`: without slashes at its ends."""

    host: str
    folder: str

    def repository(self, name: str) -> str:
        """Return the repository of an image, or of a chart, within the registry."""
        return f"{self.folder}/{name}"

    def reference(self, name: str, digest: str) -> str:
        """Return the full reference of an image by its digest."""
        return f"{self.host}/{self.repository(name)}@{digest}"

    @property
    def charts(self) -> str:
        """Return the folder of charts, as helm names it."""
        return f"oci://{self.host}/{self.folder}/{CHARTS}"


def parse(text: str) -> Place:
    """Return the place that `HOST[:PORT]/FOLDER` names.

    Raises:
        InvalidInputError: there is a scheme, no folder, or a character that registries refuse.
    """
    host, _, folder = text.partition("/")
    if not _HOST.fullmatch(host) or not _FOLDER.fullmatch(folder):
        remedy = "name a host and a folder without a scheme, in lower case: registry.example:5000/team/cotenant"
        raise errors.InvalidInputError("REGISTRY", text, remedy)
    return Place(host, folder)
