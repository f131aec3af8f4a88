"""When a gang has succeeded before all of its members have: `spec.successPolicy`, as of batch/v1."""

import re
from typing import Annotated, Final

from pydantic import Field

from cotenant_api import documents

MAX_INDEXES: Final = 1024
"""Characters: each of 256 members can be named by itself, and more by intervals. To judge 20 rules of four times as
many took an API server 1.2 s or more.
"""
_INDEX: Final = re.compile(r"[0-9]{1,4}")


class SuccessRule(documents.Model):
    """One rule of `successPolicy`; with both fields, the count is of these members."""

    succeeded_indexes: Annotated[str, Field(min_length=1, max_length=MAX_INDEXES)] | None = None
    """Members that must have succeeded, by their indexes from 0 in ascending order: `0`, `0,2-5`."""
    succeeded_count: Annotated[int, Field(ge=1, le=1024)] | None = None
    """How many members must have succeeded; with `succeededIndexes`: how many of those."""


class SuccessPolicy(documents.Model):
    """When a gang has succeeded: as soon as one of the rules is met."""

    rules: Annotated[tuple[SuccessRule, ...], Field(min_length=1, max_length=20)]
    """Looked at in order; one that is met is enough. The members that still run are then ended."""


def indexes(text: str) -> frozenset[int]:
    """Return the indexes that a list of intervals such as `0,2-5` names; none where it cannot be read."""
    found: set[int] = set()
    for part in text.split(",") if len(text) <= MAX_INDEXES else ():
        ends = part.split("-")
        if len(ends) > len(("first", "last")) or not all(_INDEX.fullmatch(end) for end in ends):
            return frozenset()
        found.update(range(int(ends[0]), int(ends[-1]) + 1))
    return frozenset(found)


def is_met(policy: SuccessPolicy, succeeded: frozenset[int]) -> bool:
    """Return whether so many members are enough, as the Job controller decides it."""
    return bool(succeeded) and any(_matches(rule, succeeded) for rule in policy.rules)


def _matches(rule: SuccessRule, succeeded: frozenset[int]) -> bool:
    wanted = None if rule.succeeded_indexes is None else indexes(rule.succeeded_indexes)
    count = rule.succeeded_count
    if wanted is None:
        return count is not None and len(succeeded) >= count
    there = len(wanted & succeeded)
    return bool(wanted) and (there == len(wanted) or (count is not None and there >= count))
