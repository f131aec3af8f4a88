"""The admission policies as manifests/ has them. Read once, for the tests that look at them."""

from pathlib import Path
from typing import Any, Final

import yaml

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
BINDING: Final = "Binding"


def documents(folder: str) -> list[dict[str, Any]]:
    """Return every object in the files of a folder of manifests/."""
    found = [yaml.safe_load_all(path.read_text()) for path in sorted((MANIFESTS / folder).glob("*.yaml"))]
    return [document for each in found for document in each if document]


POLICIES: Final = {
    f"{document['kind']}/{document['metadata']['name']}": document["spec"]
    for document in documents("admission")
    if not document["kind"].endswith(BINDING)
}
BINDINGS: Final = [document for document in documents("admission") if document["kind"].endswith(BINDING)]
