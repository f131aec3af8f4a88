"""Images without an engine: what decides about a rebuild, command lines, archives read and changed, package lists."""

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pytest

from cotenant_api import errors
from cotenant_e2e import progress
from cotenant_e2e.imaging import archives, base, bom, build, catalog, derive, engines
from cotenant_e2e.imaging.engines import Buildah, Request

DEBIAN = "Package: libc6\nVersion: 2.36-9+deb12u9\nArchitecture: amd64\nDescription: GNU C Library\n two lines\n"
PYTHON = "Metadata-Version: 2.4\nName: PyYAML\nVersion: 6.0.3\n\nA long text\nName: not this\n"
FILES = {
    "./var/lib/dpkg/status.d/libc6": DEBIAN,
    "opt/cotenant/lib/python3.11/site-packages/pyyaml-6.0.3.dist-info/METADATA": PYTHON,
    "opt/cotenant/lib/python3.11/site-packages/yaml/__init__.py": "x = 1\n",
}
MACHINE = """\
Types: deb
# a comment
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
"""
LISTED = """\
:env:.cert='/etc/ssl/own.crt'
:env:.find-links='/opt/wheels'
global.index-url='https://index.test/simple'
"""


def tar(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            information = tarfile.TarInfo(name)
            information.size = len(data)
            archive.addfile(information, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An image of one layer."""
    config = {"config": {"User": "65532:65532"}, "rootfs": {"type": "layers", "diff_ids": ["sha256:a"]}}
    manifest = [{"Config": "c.json", "RepoTags": ["localhost/cotenant/node:1"], "Layers": ["a.tar"]}]
    path = tmp_path / "node.tar"
    outer: dict[str, str | bytes] = {
        "a.tar": tar(FILES),
        "c.json": json.dumps(config),
        "manifest.json": json.dumps(manifest),
    }
    path.write_bytes(tar(outer))
    return path


def test_an_image_is_built_again_when_the_wheel_or_a_label_changes(tmp_path: Path) -> None:
    wheel = tmp_path / "w.whl"
    wheel.write_bytes(b"one")
    image = catalog.IMAGES[0]
    first = image.digest(wheel, "1")
    assert image.digest(wheel, "1") == first
    assert image.digest(wheel, "2") != first
    wheel.write_bytes(b"two")
    assert image.digest(wheel, "1") != first


def test_every_image_has_its_files() -> None:
    assert [path for image in catalog.IMAGES for path in image.inputs() if not path.is_file()] == []


def test_an_engine_is_given_base_labels_and_secrets(tmp_path: Path) -> None:
    request = Request("r:1", tmp_path / "D", tmp_path, "debian:x", {"l": "v"}, {"pip": Path("/p")})
    words = engines._arguments(request)
    assert "BASE=debian:x" in words
    assert words[words.index("--label") + 1] == "l=v"
    assert words[words.index("--secret") + 1] == "id=pip,src=/p"
    assert words[-1] == str(tmp_path)


def test_another_architecture_is_named_to_the_engine_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    request = Request("r:1", tmp_path / "D", tmp_path, "debian:x", architecture="arm64")
    words = engines._arguments(request)
    assert words[words.index("--platform") + 1] == "linux/arm64"
    assert "--platform" not in engines._arguments(Request("r:1", tmp_path / "D", tmp_path, "debian:x"))
    image = catalog.IMAGES[0]
    assert build.Order(tmp_path, "1").reference(image) == image.reference("1")
    assert build.Order(tmp_path, "1", architecture="arm64").reference(image) == image.reference("1-arm64")


def test_buildah_keeps_everything_in_a_folder_of_its_own() -> None:
    command = Buildah(Path("/c"))._command("images")
    assert command == ["buildah", "--root", "/c/storage", "--runroot", "/c/run", "images"]


def test_a_program_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(errors.PermanentError, match=r"false failed with exit code 1: 'it says nothing': see .*log"),
    ):
        engines._run(["false"], log=log)


def test_what_a_failed_build_complains_of_is_told(tmp_path: Path) -> None:
    said = "step 1\nERROR: no buildx\n  how to have it\n"
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(errors.PermanentError, match="ERROR: no buildx"),
    ):
        engines._run(["sh", "-c", f"printf '{said}'; exit 3"], log=log)


def test_the_machines_own_mirror_serves_a_base_that_is_made_here() -> None:
    assert base.origin(MACHINE) == base.Origin("http://mirror.test/debian", MACHINE)


@pytest.mark.parametrize("text", [None, "", MACHINE.replace("bookworm", "noble")])
def test_a_machine_of_another_distribution_makes_no_base_and_says_what_to_do(text: str | None) -> None:
    with pytest.raises(errors.PermanentError, match="IMAGE_BASE"):
        base.origin(text)


def test_only_the_way_to_the_index_goes_into_a_build() -> None:
    assert build.index_configuration(LISTED) == "[global]\nindex-url = https://index.test/simple\n"
    assert build.settings(LISTED)["cert"] == "/etc/ssl/own.crt"


@dataclass
class FakeEngine:
    """Saves one archive for every image. `fails`: the next build does."""

    archive: Path
    name: str = "fake"
    built: list[str] = field(default_factory=list)
    fails: bool = False

    def pull(self, reference: str) -> bool:
        """It has them all."""
        return bool(reference)

    def import_(self, archive: Path, reference: str) -> None:
        """Nothing to import where all is there."""
        raise AssertionError((archive, reference))

    def build(self, request: Request, log: TextIO) -> None:
        """Note it."""
        if self.fails:
            raise errors.PermanentError(log.name)
        self.built.append(request.reference)

    def save(self, reference: str, archive: Path) -> None:
        """Of the last that was built."""
        assert self.built[-1] == reference
        shutil.copyfile(self.archive, archive)


def stage(context: Path) -> Path:
    """A context with a wheel."""
    (context / "wheel").mkdir(parents=True, exist_ok=True)
    (context / "wheel" / "cotenant-1-py3-none-any.whl").write_text("wheel")
    return context


def test_an_unchanged_tree_builds_nothing_again(archive: Path, tmp_path: Path) -> None:
    engine, order = FakeEngine(archive), build.Order(tmp_path / "out", "1")
    silent = progress.PlainProgress(io.StringIO())
    first = build.build(order, silent, find=lambda: engine, stage=stage)
    assert engine.built == [image.reference("1") for image in catalog.IMAGES]
    again = build.build(order, silent, find=lambda: engine, stage=stage)
    assert [(each.fresh, other.fresh) for each, other in zip(first, again, strict=True)] == [(True, False)] * len(first)
    assert "localhost/cotenant/node:1" in "\n".join(build.table(again))
    (tmp_path / "out" / "node.tar").unlink()
    engine.fails = True
    with pytest.raises(errors.PermanentError):
        build.build(order, silent, find=lambda: engine, stage=stage)
    engine.fails = False
    assert [each.image.name for each in build.build(order, silent, find=lambda: engine, stage=stage) if each.fresh] == [
        "node"
    ]


def test_an_archive_tells_size_files_and_user(archive: Path) -> None:
    contents = archives.read(archive)
    assert contents.config["User"] == "65532:65532"
    assert contents.files["var/lib/dpkg/status.d/libc6"] == len(DEBIAN)
    assert contents.unpacked_mib * archives.MIB == sum(map(len, FILES.values()))


def test_the_list_of_packages_names_debians_and_pythons(archive: Path) -> None:
    document = json.loads(bom.document(archive, name="cotenant/node", version="1"))
    assert {each["purl"] for each in document["components"]} == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64&distro=debian-12",
        "pkg:pypi/pyyaml@6.0.3",
    }
    assert document["metadata"]["component"]["name"] == "cotenant/node"


def test_a_derived_image_has_one_layer_more_and_another_name(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    change = derive.Change({"opt/new": "text"}, ("opt/cotenant/old.pyc",))
    derive.derive(archive, out, reference="localhost/cotenant/node:0", change=change)
    contents = archives.read(out)
    assert contents.files["opt/new"] == len("text")
    assert "opt/cotenant/.wh.old.pyc" in contents.names
    assert contents.config["Labels"] == {derive.LABEL: "localhost/cotenant/node:1"}
    with tarfile.open(out) as outer:
        original, manifest = json.load(archives._member(outer, "manifest.json"))
        config = json.load(archives._member(outer, manifest["Config"]))
    assert (original["RepoTags"], manifest["RepoTags"]) == (
        ["localhost/cotenant/node:1"],
        ["localhost/cotenant/node:0"],
    )
    assert set(original["Layers"]) < set(manifest["Layers"])
    assert len(config["rootfs"]["diff_ids"]) == len(manifest["Layers"]) == 2
