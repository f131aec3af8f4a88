"""Images from local files: what is in them, and that equal files give equal bytes."""

import io
import json
import tarfile
from pathlib import Path

from cotenant_e2e.node import images


def written(tmp_path: Path) -> tarfile.TarFile:
    (tmp_path / "program").write_text("#!")
    files = {"bin/program": str(tmp_path / "program"), "bin/other": "@program"}
    images.write(tmp_path / "image.tar", "localhost/a:7", files=files, config={"Entrypoint": ["/bin/program"]})
    return tarfile.open(tmp_path / "image.tar")


def blob(archive: tarfile.TarFile, digest: str) -> bytes:
    file = archive.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
    assert file
    return file.read()


def index(archive: tarfile.TarFile) -> dict[str, object]:
    file = archive.extractfile("index.json")
    assert file
    return dict(json.load(file)["manifests"][0])


def test_an_image_is_known_by_its_reference(tmp_path: Path) -> None:
    with written(tmp_path) as archive:
        annotations = index(archive)["annotations"]
    assert annotations == {
        "io.containerd.image.name": "localhost/a:7",
        "org.opencontainers.image.ref.name": "7",
    }


def test_the_configuration_and_the_layer_are_found_by_their_digests(tmp_path: Path) -> None:
    with written(tmp_path) as archive:
        manifest = json.loads(blob(archive, str(index(archive)["digest"])))
        config = json.loads(blob(archive, manifest["config"]["digest"]))
        layer = blob(archive, manifest["layers"][0]["digest"])
    assert config["config"] == {"Entrypoint": ["/bin/program"]}
    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:gz") as files:
        assert files.getmember("bin/other").linkname == "program"
        assert files.getmember("tmp").mode == 0o1777


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    layers = []
    for name in ("a", "b"):
        (tmp_path / name / "file").write_text("same")
        layers.append(images.layer({"file": str(tmp_path / name / "file")}))
    assert layers[0] == layers[1]
