"""Writes images of one small file."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cotenant_e2e.releasing.oci import digest_of


def docker_archive(path: Path, architecture: str, text: str) -> Path:
    """Write an image of one layer with one file, as `docker save` does; the path."""
    layer = tar({"opt/file": text.encode()})
    rootfs = {"type": "layers", "diff_ids": [digest_of(layer)]}
    config = {"architecture": architecture, "os": "linux", "config": {}, "rootfs": rootfs}
    manifest = [{"Config": "c.json", "RepoTags": ["localhost/x:1"], "Layers": ["l.tar"]}]
    path.parent.mkdir(parents=True, exist_ok=True)
    documents = {"c.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    path.write_bytes(tar({"l.tar": layer, **documents}))
    return path


def tar(files: Mapping[str, bytes]) -> bytes:
    """Return a tar of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            information = tarfile.TarInfo(name)
            information.size = len(content)
            archive.addfile(information, io.BytesIO(content))
    return buffer.getvalue()
