"""An installation from a private registry: by digest, with a pull secret, refused where somebody changed an image."""

from pathlib import Path

import pytest

import cotenant_api
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.imaging import engines
from cotenant_e2e.releasing import oci
from cotenant_e2e.releasing.registry import Registry
from install import releases
from install.site import NAMESPACE, SECONDS, Site
from release import small

VERSION = cotenant_api.__version__


@pytest.fixture(autouse=True)
def installed(site: Site) -> None:
    """Install this version from the registry."""
    site.have(VERSION)


def test_every_pod_of_the_release_names_the_secret_and_images_by_digest(site: Site) -> None:
    host = site.releases.registry.host
    for pod in site.pods():
        assert pod["spec"]["imagePullSecrets"] == [{"name": releases.PULL_SECRET}]
        for container in pod["spec"]["containers"]:
            assert "@sha256:" in container["image"] or not container["image"].startswith(host)


def test_helm_test_is_content_with_the_installation(site: Site) -> None:
    assert "Phase:          Succeeded" in site.helm.run("test", "cotenant", "--timeout", "120s")


def pushed(site: Site, name: str, folder: Path) -> tuple[str, Path]:
    """Push an image of one file; return its reference by digest, and the registry's file with its layer."""
    archive = small.docker_archive(folder / "small.tar", engines.NATIVE, name)
    image = oci.image(archive, folder)
    repository = f"{releases.FOLDER}/{name}"
    registry = site.releases.registry
    with Registry(registry.access) as client:
        for blob in image.blobs:
            client.push_blob(repository, blob)
        digest = client.push_manifest(repository, image.manifest, media_type=oci.MANIFEST)
    return f"{registry.host}/{repository}@{digest}", registry.blob(image.blobs[-1].digest)


def refused(site: Site, name: str, image: str, secrets: list[Json]) -> str:
    """Run a pod whose image cannot be pulled; return the reason."""
    spec = {
        "containers": [{"name": "main", "image": image}],
        "imagePullSecrets": secrets,
        "nodeName": site.gpus.node.name,
    }
    path = clients.path_of("pods", namespace=NAMESPACE)
    site.cluster.client.create(path, {"metadata": {"name": name}, "spec": spec})
    one = clients.path_of("pods", namespace=NAMESPACE, name=name)

    def waits() -> str:
        statuses = site.cluster.client.get(one)["status"].get("containerStatuses") or [{}]
        waiting_for = statuses[0].get("state", {}).get("waiting", {})
        return str(waiting_for["message"]) if waiting_for.get("reason") == "ErrImagePull" else ""

    try:
        return waiting.wait_until(waits, f"pod {name} without its image", SECONDS) or ""
    finally:
        site.cluster.client.delete(one, gracePeriodSeconds="0")


def test_an_image_whose_bytes_changed_in_the_registry_starts_nowhere(site: Site, tmp_path: Path) -> None:
    image, layer = pushed(site, "changed", tmp_path)
    content = bytearray(layer.read_bytes())
    content[len(content) // 2] ^= 1
    layer.write_bytes(content)
    assert "unexpected commit digest" in refused(site, "changed", image, [{"name": releases.PULL_SECRET}])


def test_without_the_secret_the_runtime_gets_nothing(site: Site, tmp_path: Path) -> None:
    image, _ = pushed(site, "secretless", tmp_path)
    assert "no basic auth credentials" in refused(site, "secretless", image, [])
