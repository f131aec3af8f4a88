"""An image like another but for a few files, under another name: for tests of one version beside another.

The result is a docker archive of both. It is never shipped, and the image's label says what it was made from.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LABEL: Final = "cotenant.dev/derived-from"
WHITEOUT: Final = ".wh."


@dataclass(frozen=True)
class Change:
    """`files`: path in the image -> new text; `removed`: paths that are there no more."""

    files: Mapping[str, str]
    removed: tuple[str, ...] = ()

    def layer(self) -> bytes:
        """As the tar of one layer."""
        buffer = io.BytesIO()
        whiteouts = {str(path.with_name(WHITEOUT + path.name)): "" for path in map(Path, self.removed)}
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, text in {**self.files, **whiteouts}.items():
                _add(archive, path, text.encode())
        return buffer.getvalue()


def derive(archive: Path, out: Path, *, reference: str, change: Change) -> None:
    """Write the image of an archive, and after it the changed one, into another archive.

    They share layers, so a runtime that imports both unpacks these once. `reference`: the changed one's name.
    """
    layer = change.layer()
    with tarfile.open(archive) as source, tarfile.open(out, "w") as target:
        (manifest,) = json.load(_content(source, "manifest.json"))
        config = json.load(_content(source, manifest["Config"]))
        name = hashlib.sha256(layer).hexdigest()
        changed = json.dumps(_configured(config, diff=f"sha256:{name}", label=manifest["RepoTags"][0])).encode()
        configuration = f"{hashlib.sha256(changed).hexdigest()}.json"
        entry = {
            "Config": configuration,
            "RepoTags": [reference],
            "Layers": [*manifest["Layers"], f"{name}.tar"],
        }
        for member in source.getmembers():
            if member.name in {*manifest["Layers"], manifest["Config"]}:
                target.addfile(member, source.extractfile(member) if member.isfile() else None)
        for path, content in ((configuration, changed), (f"{name}.tar", layer)):
            _add(target, path, content)
        _add(target, "manifest.json", json.dumps([manifest, entry]).encode())


def _configured(config: dict[str, Any], *, diff: str, label: str) -> dict[str, Any]:
    rootfs = config["rootfs"] | {"diff_ids": [*config["rootfs"]["diff_ids"], diff]}
    history = [*config.get("history", ()), {"created_by": "changed for a test"}]
    inner = config["config"]
    labels = (inner.get("Labels") or {}) | {LABEL: label}
    return config | {"rootfs": rootfs, "history": history, "config": inner | {"Labels": labels}}


def _content(archive: tarfile.TarFile, name: str) -> Any:
    found = archive.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _add(archive: tarfile.TarFile, path: str, content: bytes) -> None:
    information = tarfile.TarInfo(path)
    information.size, information.mode = len(content), 0o644
    archive.addfile(information, io.BytesIO(content))
