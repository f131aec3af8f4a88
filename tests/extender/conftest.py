"""What several tests of the extender need."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def unsearched() -> Iterator[None]:
    """Let nothing search for garbage: the extender keeps what it has looked at twice out of every later search."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
