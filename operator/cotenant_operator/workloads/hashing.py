"""How content becomes a digest in an annotation. Pure."""

import hashlib

from cotenant_api import documents


def digest(content: object) -> str:
    """Return the digest of a JSON value."""
    return hashlib.sha256(documents.canonical(content).encode()).hexdigest()[:32]
