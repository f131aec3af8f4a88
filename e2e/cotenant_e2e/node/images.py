"""Writes container images (OCI layout in a tar) from files of this machine, without a registry. Starts nothing."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MEDIA_TYPE = "application/vnd.oci.image"
EMPTY_DIRECTORIES = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "var")
LINK = "@"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

Blobs = dict[str, bytes]


def write(out: Path, reference: str, *, files: Mapping[str, str], config: Mapping[str, Any]) -> None:
    """Write an image of one layer.

    Args:
        out: the tar, for `ctr images import`.
        reference: its name (`localhost/busybox:1`).
        files: path in the image -> a file or folder of this machine, or `@TARGET` for a symbolic link.
        config: OCI image configuration (`Entrypoint`, `Env`, `User`).
    """
    blobs: Blobs = {}
    uncompressed = layer(files)
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    image = {
        "architecture": architecture,
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [_digest(uncompressed)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
        "config": _added(blobs, _json(image), "config.v1+json"),
        "layers": [_added(blobs, gzip.compress(uncompressed, 1, mtime=0), "layer.v1.tar+gzip")],
    }
    entry = _added(blobs, _json(manifest), "manifest.v1+json") | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {
            "io.containerd.image.name": reference,
            "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
        },
    }
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA_TYPE}.index.v1+json", "manifests": [entry]}
    contents = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    contents |= {f"blobs/sha256/{digest.removeprefix('sha256:')}": blob for digest, blob in blobs.items()}
    with tarfile.open(out, "w") as archive:
        for name, content in contents.items():
            information = tarfile.TarInfo(name)
            information.size = len(content)
            archive.addfile(information, io.BytesIO(content))


def layer(files: Mapping[str, str]) -> bytes:
    """Return the tar of one layer: the same files give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in EMPTY_DIRECTORIES:
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(directory)
        for path, source in files.items():
            if source.startswith(LINK):
                link = tarfile.TarInfo(path)
                link.type, link.linkname = tarfile.SYMTYPE, source.removeprefix(LINK)
                archive.addfile(link)
            else:
                archive.add(source, arcname=path, filter=_anonymous)
    return buffer.getvalue()


def _anonymous(information: tarfile.TarInfo) -> tarfile.TarInfo:
    information.uid = information.gid = 0
    information.uname = information.gname = "root"
    information.mtime = 0
    return information


def _added(blobs: Blobs, content: bytes, kind: str) -> dict[str, Any]:
    digest = _digest(content)
    blobs[digest] = content
    return {"mediaType": f"{MEDIA_TYPE}.{kind}", "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
