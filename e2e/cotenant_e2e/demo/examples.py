"""The examples of `manifests/examples/`: what the demo applies, and how many rows they make."""

from typing import Final

import yaml

from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import MANIFESTS

DIRECTORY: Final = MANIFESTS / "examples"


def apply(cluster: Cluster) -> None:
    """Apply them, as anybody would."""
    cluster.kubectl("apply", "--server-side", "--kustomize", str(DIRECTORY))


def expected_rows() -> int:
    """Return a row for each DLJob and for each pod of the other workloads."""
    return sum(_rows_of(manifest) for manifest in manifests())


def manifests() -> list[dict[str, object]]:
    """Every object in the files that the kustomization lists."""
    kustomization = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())
    files = [DIRECTORY / name for name in kustomization["resources"]]
    return [manifest for file in files for manifest in yaml.safe_load_all(file.read_text()) if manifest]


def _rows_of(manifest: dict[str, object]) -> int:
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return 0
    match manifest["kind"]:
        case "DLJob":
            return 1
        case "Job":
            return int(spec.get("completions", 1))
        case "Deployment":
            return int(spec.get("replicas", 1))
        case _:
            return 0
