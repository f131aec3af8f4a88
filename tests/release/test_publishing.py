"""Releases into a real registry: what is pushed, what is rendered from it, and which changes by others are detected."""

import dataclasses
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from cotenant_api import errors
from cotenant_e2e import charts
from cotenant_e2e.imaging import catalog
from cotenant_e2e.releasing import oci, place, publishing
from cotenant_e2e.releasing.publishing import Released
from cotenant_e2e.releasing.registry import Access, Registry
from cotenant_e2e.releasing.signing import SignatureError
from release.conftest import ARCHITECTURES, VERSION, Yard, images, silent

NAMES = {image.name for image in catalog.IMAGES}


def helm(yard: Yard, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm at this registry; a failure is returned, not raised."""
    reaching = ("--registry-config", str(yard.running.logins), "--ca-file", str(yard.running.ca))
    program = str(yard.tools.helm.program)
    return subprocess.run([program, *arguments, *reaching], capture_output=True, text=True, check=False)


def replaced(yard: Yard, reference: str, tag: str) -> str:
    """Move a tag to a copy of a manifest with an annotation that nobody signed; return the reference by tag."""
    where, _, digest = reference.partition("@")
    repository = where.partition("/")[2]
    with Registry(yard.running.access) as registry:
        document = json.loads(registry.manifest(repository, digest) or b"{}")
        changed = json.dumps(document | {"annotations": {"changed": "yes"}}).encode()
        registry.push_manifest(repository, changed, media_type=document["mediaType"], tag=tag)
    return f"{where}:{tag}"


def test_every_image_is_an_index_of_both_architectures_under_its_version(yard: Yard, released: Released) -> None:
    assert released.digests.keys() == NAMES
    with Registry(yard.running.access) as registry:
        for image in released.images:
            repository = released.order.place.repository(image.name)
            by_tag = registry.manifest(repository, VERSION)
            assert by_tag
            assert by_tag == registry.manifest(repository, image.digest)
            index = json.loads(by_tag)
            listed = {each["platform"]["architecture"]: each["digest"] for each in index["manifests"]}
            assert listed == image.platforms
            assert tuple(listed) == ARCHITECTURES


def test_a_layer_is_what_the_archive_holds(yard: Yard, released: Released) -> None:
    (node,) = (image for image in released.images if image.name == "node")
    with Registry(yard.running.access) as registry:
        manifest = json.loads(
            registry.manifest(released.order.place.repository("node"), node.platforms["arm64"]) or b"{}"
        )
    (layer,) = manifest["layers"]
    with tarfile.open(yard.running.blob(layer["digest"])) as content:
        file = content.extractfile("opt/file")
        assert file
        assert file.read() == b"node arm64 as built"


def test_the_chart_of_the_registry_names_it_and_every_image_by_digest(
    yard: Yard, released: Released, tmp_path: Path
) -> None:
    done = helm(yard, "pull", f"{released.order.place.charts}/cotenant", "--version", VERSION, "-d", str(tmp_path))
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / f"cotenant-{VERSION}.tgz") as archive:
        file = archive.extractfile("cotenant/values.yaml")
        assert file
        values = yaml.safe_load(file.read())
    assert values["image"]["registry"] == yard.running.host
    assert values["image"]["repository"] == "team/cotenant"
    assert values["image"]["digests"] == released.digests
    ours = yaml.safe_load((charts.CHART / "values.yaml").read_text())
    changed = {"registry", "repository", "digests"}
    assert {key: value for key, value in values["image"].items() if key not in changed} == {
        key: value for key, value in ours["image"].items() if key not in changed
    }
    assert {key: value for key, value in values.items() if key != "image"} == {
        key: value for key, value in ours.items() if key != "image"
    }


def test_a_chart_of_the_registry_needs_no_values_to_be_rendered(yard: Yard, released: Released) -> None:
    done = helm(yard, "template", "cotenant", f"{released.order.place.charts}/cotenant", "--version", VERSION)
    assert done.returncode == 0, done.stderr
    for name, digest in released.digests.items():
        assert f"{yard.running.host}/team/cotenant/{name}:{VERSION}@{digest}" in done.stdout


def test_a_chart_is_had_by_the_digest_that_was_verified(yard: Yard, released: Released) -> None:
    by_digest = f"{released.order.place.charts}/cotenant@{released.chart}"
    assert helm(yard, "template", "cotenant", by_digest).returncode == 0
    other = f"{released.order.place.charts}/cotenant@sha256:{'0' * 64}"
    assert helm(yard, "template", "cotenant", other).returncode != 0


def test_images_platforms_package_lists_and_chart_are_signed(yard: Yard, released: Released) -> None:
    for image in released.images:
        yard.cosign.verify(released.reference(image.name), yard.public)
    for digest in released.images[0].platforms.values():
        reference = released.order.place.reference(released.images[0].name, digest)
        yard.cosign.verify(reference, yard.public)
        yard.cosign.verify_bom(reference, yard.public)
    yard.cosign.verify(released.chart_reference, yard.public)


def test_the_summary_names_what_was_pushed(released: Released) -> None:
    summary = json.loads((released.order.folder / publishing.SUMMARY).read_text())
    assert summary["images"].keys() == NAMES
    assert summary["images"]["node"]["reference"] == released.reference("node")
    assert summary["chart"]["reference"] == released.chart_reference
    assert summary["signed"] is True
    beside = {path.name for path in released.order.folder.glob("*.cdx.json")}
    assert beside == {f"{name}-{architecture}.cdx.json" for name in NAMES for architecture in ARCHITECTURES}


def test_what_nobody_signed_is_found_under_tag_and_version(yard: Yard, tmp_path: Path) -> None:
    released = yard.publish("team/moved")
    chart = f"{released.order.place.host}/{released.order.chart}:{VERSION}"
    yard.cosign.verify(f"{released.order.place.host}/team/moved/node:{VERSION}", yard.public)
    yard.cosign.verify(chart, yard.public)

    moved = replaced(yard, released.reference("node"), VERSION)
    with pytest.raises(SignatureError, match="cosign verify failed"):
        yard.cosign.verify(moved, yard.public)
    # By digest the signed one is had all the same.
    yard.cosign.verify(released.reference("node"), yard.public)

    with tarfile.open(released.archive) as archive:
        archive.extractall(tmp_path, filter="data")
    values = tmp_path / "cotenant" / "values.yaml"
    values.write_text(values.read_text().replace(released.digests["node"], f"sha256:{'0' * 64}"))
    program = str(yard.tools.helm.program)
    packing = [program, "package", str(tmp_path / "cotenant"), "-d", str(tmp_path)]
    subprocess.run(packing, check=True, stdout=subprocess.DEVNULL)
    yard.tools.helm.push(tmp_path / f"cotenant-{VERSION}.tgz", released.order.place)
    with pytest.raises(SignatureError, match="cosign verify failed"):
        yard.cosign.verify(chart, yard.public)
    yard.cosign.verify(released.chart_reference, yard.public)


def test_a_chart_whose_bytes_changed_in_the_registry_is_refused_by_helm(yard: Yard, tmp_path: Path) -> None:
    released = yard.publish("team/broken-chart", signed=False)
    with Registry(yard.running.access) as registry:
        manifest = json.loads(registry.manifest(released.order.chart, released.chart) or b"{}")
    blob = yard.running.blob(manifest["layers"][0]["digest"])
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    blob.write_bytes(content)
    done = helm(yard, "pull", f"{released.order.place.charts}/cotenant", "--version", VERSION, "-d", str(tmp_path))
    assert done.returncode != 0
    assert not list(tmp_path.iterdir())


def test_another_key_verifies_nothing(yard: Yard, released: Released, tmp_path: Path) -> None:
    yard.cosign.make_keys(tmp_path)
    with pytest.raises(SignatureError):
        yard.cosign.verify(released.reference("node"), tmp_path / "cosign.pub")


def test_a_version_is_released_once(yard: Yard, released: Released) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"VERSION.*choose another VERSION"):
        yard.publish(released.order.place.folder)


def test_a_release_that_broke_off_goes_on_but_moves_no_tag(yard: Yard) -> None:
    where = place.parse(f"{yard.running.host}/team/broken-off")
    out = yard.folder / "team" / "broken-off"
    order = publishing.Order(where, VERSION, out / "out", out / "layers")
    helm_fails = dataclasses.replace(yard.tools.helm, program=Path("/bin/false"))
    broken = dataclasses.replace(yard.tools, helm=helm_fails, key=None)
    with Registry(yard.running.access) as registry, pytest.raises(errors.PermanentError, match="helm package failed"):
        publishing.publish(order, images(out / "built", "one"), registry=registry, tools=broken, progress=silent())
    with pytest.raises(errors.InvalidInputError, match="no tag is moved"):
        yard.publish("team/broken-off", text="another", signed=False)
    shutil.rmtree(out)
    assert yard.publish("team/broken-off", text="one", signed=False).digests.keys() == NAMES


def test_an_image_of_another_architecture_is_refused(yard: Yard, tmp_path: Path) -> None:
    built = images(tmp_path, "x")
    order = publishing.Order(
        place.parse(f"{yard.running.host}/team/wrong"), VERSION, tmp_path / "out", tmp_path / "layers"
    )
    with Registry(yard.running.access) as registry, pytest.raises(errors.PermanentError, match="is for arm64"):
        publishing.publish(order, {"amd64": built["arm64"]}, registry=registry, tools=yard.tools, progress=silent())


def test_at_a_private_registry_a_stranger_may_neither_push_nor_read(yard: Yard) -> None:
    blob = oci._of_bytes("application/octet-stream", b"x")
    with Registry(Access(yard.running.host, yard.running.ca)) as stranger:
        if yard.running.access.user is None:
            stranger.push_blob("team/x", blob)
            assert stranger.manifest("team/x", "1") is None
            return
        with pytest.raises(errors.PermanentError, match=f"401.*docker login {yard.running.host}"):
            stranger.push_blob("team/x", blob)
        with pytest.raises(errors.PermanentError, match="401"):
            stranger.manifest("team/x", "1")
