"""Pushes a release step by step: images, package lists, signatures, and at last the chart that names all of it."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_api import errors
from cotenant_e2e import charts
from cotenant_e2e.imaging.build import Built
from cotenant_e2e.progress import Progress
from cotenant_e2e.releasing import oci
from cotenant_e2e.releasing.chart import Helm
from cotenant_e2e.releasing.place import CHARTS, Place
from cotenant_e2e.releasing.registry import Registry
from cotenant_e2e.releasing.signing import Cosign

VERSION: Final = "org.opencontainers.image.version"
SUMMARY: Final = "release.json"


@dataclass(frozen=True)
class Order:
    """What is released, and where to.

    Args:
        place: registry and folder.
        version: tag of the images, version of the chart.
        folder: of this machine, for the chart's archive, the package lists and the summary.
        layers: a folder for compressed layers; what is unchanged since another release is not compressed again.
    """

    place: Place
    version: str
    folder: Path
    layers: Path

    @property
    def chart(self) -> str:
        """Return the chart's repository within the registry."""
        return self.place.repository(f"{CHARTS}/{charts.CHART.name}")


@dataclass(frozen=True)
class Tools:
    """Programs, and the key to sign with; None: nothing is signed."""

    helm: Helm
    cosign: Cosign | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Pushed:
    """One image in the registry. `platforms`: architecture -> digest of its manifest."""

    name: str
    digest: str
    platforms: Mapping[str, str]


@dataclass(frozen=True)
class Released:
    """Everything of a release."""

    order: Order
    images: tuple[Pushed, ...]
    chart: str
    archive: Path
    signed: bool

    @property
    def digests(self) -> dict[str, str]:
        """Return the digest of each image."""
        return {image.name: image.digest for image in self.images}

    def reference(self, name: str) -> str:
        """Return the reference of an image by digest."""
        return self.order.place.reference(name, self.digests[name])

    @property
    def chart_reference(self) -> str:
        """Return the chart's reference by digest."""
        return self.order.place.reference(f"{CHARTS}/{charts.CHART.name}", self.chart)

    @property
    def document(self) -> dict[str, Any]:
        """Return what `SUMMARY` holds."""
        images = {
            image.name: {"reference": self.reference(image.name), "platforms": dict(image.platforms)}
            for image in self.images
        }
        return {
            "version": self.order.version,
            "images": images,
            "chart": {"reference": self.chart_reference, "archive": self.archive.name},
            "signed": self.signed,
        }


def publish(
    order: Order, built: Mapping[str, Sequence[Built]], *, registry: Registry, tools: Tools, progress: Progress
) -> Released:
    """Push a release; what the registry has already is not sent again.

    The chart comes last: it is what people install, and then everything that it names is there.

    Args:
        order: what is released.
        built: architecture -> its images.
        registry: where to.
        tools: see `Tools`.
        progress: shows each step.

    Raises:
        InvalidInputError: the version was released before, with other content.
        PermanentError: the registry, helm or cosign refuses.
    """
    require_new(order, registry)
    order.folder.mkdir(parents=True, exist_ok=True)
    images = []
    for name in dict.fromkeys(each.image.name for group in built.values() for each in group):
        with progress.step(f"pushing {name} to {order.place.host}/{order.place.folder}"):
            archives = {
                architecture: each.archive
                for architecture, group in built.items()
                for each in group
                if each.image.name == name
            }
            images.append(_push(order, name, archives, registry))
    oci.forget(order.layers, now=time.time())
    for image in images:
        _list_packages(order, image, built, tools=tools, progress=progress)
    # What has no signature is never named by a chart: the chart comes after the images' signatures.
    for image in images:
        _sign(order.place.reference(image.name, image.digest), tools, progress)
    with progress.step("packing and pushing the chart"):
        digests = {image.name: image.digest for image in images}
        archive = tools.helm.package(order.folder, order.place, digests, version=order.version)
        digest = tools.helm.push(archive, order.place)
    released = Released(order, tuple(images), digest, archive, signed=tools.key is not None)
    _sign(released.chart_reference, tools, progress)
    (order.folder / SUMMARY).write_text(json.dumps(released.document, indent=1) + "\n")
    return released


def require_new(order: Order, registry: Registry) -> None:
    """Raise InvalidInputError where the registry has the chart of this version."""
    if registry.manifest(order.chart, order.version) is not None:
        raise _released(order, order.chart)


def _push(order: Order, name: str, archives: Mapping[str, Path], registry: Registry) -> Pushed:
    """Push an image for every platform, and the index of them under the version."""
    repository = order.place.repository(name)
    found = {architecture: oci.image(archive, order.layers) for architecture, archive in sorted(archives.items())}
    for architecture, image in found.items():
        if image.architecture != architecture:
            raise errors.PermanentError(f"{archives[architecture]} is for {image.architecture}, not for {architecture}")
    index = oci.index(list(found.values()), {VERSION: order.version})
    there = registry.manifest(repository, order.version)
    if there not in (None, index):
        raise _released(order, repository)
    for image in found.values():
        for blob in image.blobs:
            registry.push_blob(repository, blob)
        registry.push_manifest(repository, image.manifest, media_type=oci.MANIFEST)
    digest = registry.push_manifest(repository, index, media_type=oci.INDEX, tag=order.version)
    return Pushed(name, digest, {architecture: image.digest for architecture, image in found.items()})


def _sign(reference: str, tools: Tools, progress: Progress) -> None:
    if tools.cosign and tools.key:
        with progress.step(f"signing {reference}"):
            tools.cosign.sign(reference, tools.key)


def _list_packages(
    order: Order, image: Pushed, built: Mapping[str, Sequence[Built]], *, tools: Tools, progress: Progress
) -> None:
    """Put each platform's package list beside the release; with a key, sign it and attach it to the image."""
    for architecture, digest in image.platforms.items():
        (bom,) = (each.bom for each in built[architecture] if each.image.name == image.name)
        beside = order.folder / f"{image.name}-{architecture}.cdx.json"
        beside.write_bytes(bom.read_bytes())
        if tools.cosign and tools.key:
            with progress.step(f"attaching the package list of {image.name}, {architecture}"):
                tools.cosign.attest(order.place.reference(image.name, digest), tools.key, beside)


def _released(order: Order, repository: str) -> errors.InvalidInputError:
    remedy = f"{order.place.host}/{repository} has this version already, and no tag is moved: choose another VERSION"
    return errors.InvalidInputError("VERSION", order.version, remedy)


def table(released: Released) -> list[str]:
    """Return one line for each thing that was pushed."""
    platforms = {image.name: " ".join(f"linux/{name}" for name in image.platforms) for image in released.images}
    images = [f"image  {released.reference(name)}  {listed}" for name, listed in platforms.items()]
    return [*images, f"chart  {released.chart_reference}"]
