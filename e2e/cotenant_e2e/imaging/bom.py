"""What an image is made of, as a CycloneDX document: its Debian and its Python packages, read from the image itself."""

from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from cotenant_e2e.imaging import archives

DEBIAN: Final = "var/lib/dpkg/status.d/"
PYTHON: Final = "opt/cotenant/lib/"
_METADATA: Final = ".dist-info/METADATA"


def components(archive: Path) -> list[Component]:
    """Every package in an image."""
    debian = [_debian(_fields(text)) for text in archives.texts(archive, below=DEBIAN).values()]
    python = [_python(_fields(text)) for text in archives.texts(archive, below=PYTHON, named=_METADATA).values()]
    return [*debian, *python]


def document(archive: Path, *, name: str, version: str) -> str:
    """Return the document, JSON.

    `name`, `version`: of the image. The same image gives the same packages in the same order.
    """
    bom = Bom(components=components(archive))
    bom.metadata.component = Component(type=ComponentType.CONTAINER, name=name, version=version)
    bom.register_dependency(bom.metadata.component, bom.components)
    return str(JsonV1Dot6(bom).output_as_string(indent=1))


def _debian(fields: Message) -> Component:
    qualifiers = {"arch": fields["Architecture"], "distro": "debian-12"}
    url = PackageURL("deb", "debian", fields["Package"], fields["Version"], qualifiers)
    return _component(fields["Package"], fields["Version"], url)


def _python(fields: Message) -> Component:
    name = str(fields["Name"])
    return _component(
        name, fields["Version"], PackageURL("pypi", None, name.lower().replace("_", "-"), fields["Version"])
    )


def _component(name: str, version: str, url: PackageURL) -> Component:
    return Component(type=ComponentType.LIBRARY, name=name, version=version, purl=url, bom_ref=str(url))


def _fields(text: str) -> Message:
    return Parser().parsestr(text, headersonly=True)
