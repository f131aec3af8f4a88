"""Writes the schema of a PodSpec that the CRD of DLJob contains, from the pinned Kubernetes, or checks it."""

import json
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_e2e import binaries, configuration, pod_specs, recipes

SUMMARY = "write or check the schema of a PodSpec in api/, from the pinned Kubernetes"
TARGET: Final = configuration.REPOSITORY / "api" / "cotenant_api" / "crds" / "pod_spec.json"
_LICENSE: Final = "Apache-2.0, The Kubernetes Authors"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write it")
    choice.add_argument("--check", action="store_true", help="fail unless it is in step")


def run(arguments: Namespace) -> int:
    """Write, or check.

    Raises:
        PermanentError: it is not in step.
        InvalidInputError: Kubernetes' Go module is not there.
    """
    go_mod = (binaries.TOOLS / "k8s" / "go.mod").read_text()
    version = recipes.module_version(go_mod, recipes.KUBERNETES)
    module = recipes.go_modules(os.environ) / f"{recipes.KUBERNETES}@{version}"
    name = f"{pod_specs.DOCUMENT.replace('/', '__')}_openapi.json"
    text = written(module / "api" / "openapi-spec" / "v3" / name, version)
    if arguments.check and text != TARGET.read_text():
        raise errors.PermanentError(f"{TARGET} is not in step with Kubernetes {version}: run make pod-spec")
    TARGET.write_text(text)
    return 0


def written(document: Path, version: str) -> str:
    """Return the file's text.

    Raises:
        InvalidInputError: there is no document.
    """
    if not document.exists():
        raise errors.InvalidInputError("Go modules", str(document), "build the programs first: cotenant_e2e programs")
    found = pod_specs.definitions(json.loads(document.read_text()))
    value = {"license": _LICENSE, "kubernetes": version, "definitions": found}
    return json.dumps(value, indent=1) + "\n"
