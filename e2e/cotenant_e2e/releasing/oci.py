"""Turns a docker archive into the blobs and the manifest of an OCI image. Sends nothing.

The same archive gives the same digests: layers are compressed without a time and without a name.
"""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

PREFIX: Final = "application/vnd.oci.image"
MANIFEST: Final = f"{PREFIX}.manifest.v1+json"
INDEX: Final = f"{PREFIX}.index.v1+json"
LEVEL: Final = 4
"""Of gzip, whose default, 6, takes twice as long and saves 3 %."""
KEPT_SECONDS: Final = 7 * 24 * 3600

Json = dict[str, Any]


@dataclass(frozen=True)
class Blob:
    """Bytes that a manifest names by their digest. `open`: returns them anew each time."""

    media_type: str
    digest: str
    size: int
    open: Callable[[], IO[bytes]]

    @property
    def descriptor(self) -> Json:
        """Return what a manifest says of the blob."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Image:
    """An image for one platform: its manifest, and the blobs that the manifest names."""

    architecture: str
    manifest: bytes
    blobs: tuple[Blob, ...]

    @property
    def digest(self) -> str:
        """Return the digest of the manifest."""
        return digest_of(self.manifest)


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def image(archive: Path, layers: Path) -> Image:
    """Return the image of a docker archive; of several the last.

    Args:
        archive: as `docker save` and buildah write it.
        layers: a folder for compressed layers; a layer that is there already is not compressed again.
    """
    with tarfile.open(archive) as outer:
        entry = json.load(_member(outer, "manifest.json"))[-1]
        config = _member(outer, entry["Config"]).read()
        parsed = json.loads(config)
        names = zip(entry["Layers"], parsed["rootfs"]["diff_ids"], strict=True)
        blobs = [_layer(outer, name, layers / f"{diff.removeprefix('sha256:')}.tar.gz") for name, diff in names]
    configuration = _of_bytes(f"{PREFIX}.config.v1+json", config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": configuration.descriptor,
        "layers": [blob.descriptor for blob in blobs],
    }
    return Image(parsed["architecture"], _json(manifest), (configuration, *blobs))


def forget(layers: Path, *, now: float) -> None:
    """Delete compressed layers that nothing has needed for a week."""
    for path in layers.glob("*.tar.gz"):
        if now - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink()


def index(images: Sequence[Image], annotations: Mapping[str, str]) -> bytes:
    """Return the index of the same image for several platforms."""
    manifests = [
        {
            "mediaType": MANIFEST,
            "digest": each.digest,
            "size": len(each.manifest),
            "platform": {"architecture": each.architecture, "os": "linux"},
        }
        for each in images
    ]
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": dict(annotations)}
    return _json(document)


def _layer(outer: tarfile.TarFile, name: str, compressed: Path) -> Blob:
    """Compress a layer, once. The file's name is the digest of what is in it."""
    if not compressed.exists():
        compressed.parent.mkdir(parents=True, exist_ok=True)
        partial = compressed.with_suffix(".partial")
        with partial.open("wb") as file, gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as packed:
            shutil.copyfileobj(_member(outer, name), packed, 1 << 20)
        partial.rename(compressed)
    compressed.touch()
    with compressed.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    size = compressed.stat().st_size
    return Blob(f"{PREFIX}.layer.v1.tar+gzip", f"sha256:{digest}", size, lambda: compressed.open("rb"))


def _of_bytes(media_type: str, content: bytes) -> Blob:
    return Blob(media_type, digest_of(content), len(content), lambda: io.BytesIO(content))


def _member(outer: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of the archive; where two layers are alike, one is a link to the other."""
    found = outer.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
