"""How many files a process may have open."""

import resource

import pytest

from cotenant_api import descriptors


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 524288), (65536, 524288)),
        ((1024, 4096), (4096, 4096)),
        ((100000, 524288), (100000, 524288)),
        ((1024, resource.RLIM_INFINITY), (65536, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    ],
)
def test_a_process_has_as_many_as_it_may_within_reason(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int]
) -> None:
    there = [before]
    monkeypatch.setattr(resource, "getrlimit", lambda _: there[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: there.append(limits))
    descriptors.raise_limit()
    assert there[-1] == after
