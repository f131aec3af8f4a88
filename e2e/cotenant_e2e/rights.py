"""What our accounts may do, by RBAC, and what they did, by the API server's audit log. Pure.

The record is a text: a line for each right that is granted, with `used`, or why it is granted all the same.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import errors, names

ALL: Final = f"system:serviceaccounts:{names.RELEASE_NAMESPACE}"
"""The group of our accounts."""
USED: Final = "used"
_ACCOUNT: Final = f"system:serviceaccount:{names.RELEASE_NAMESPACE}:"
_NOBODYS: Final = ("", "kubectl/")
"""How a program names itself that is none of ours: a test that plays an attacker, and kubectl."""


@dataclass(frozen=True, order=True, slots=True)
class Right:
    """One of an account. `resource`: plural[.group][/subresource]."""

    account: str
    verb: str
    resource: str

    def __str__(self) -> str:
        return f"{self.account} {self.verb} {self.resource}"


def used(log: Iterable[str]) -> set[Right]:
    """Return the rights by which programs of ours were let in, from the lines of an audit log.

    A broken line is left out.
    """
    found = set()
    for line in log:
        try:
            event = json.loads(line)
        except ValueError:
            # The last one, which was being written.
            continue
        right = _used(event)
        if right is not None:
            found.add(right)
    return found


def _used(event: Mapping[str, Any]) -> Right | None:
    user, subject = event["user"]["username"], event.get("objectRef") or {}
    allowed = (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "allow"
    agent = event.get("userAgent", "")
    foreign = any(agent.startswith(one) if one else not agent for one in _NOBODYS)
    if not user.startswith(_ACCOUNT) or not allowed or foreign or "resource" not in subject:
        return None
    resource = _resource(subject.get("apiGroup", ""), subject["resource"], subject.get("subresource", ""))
    return Right(user.removeprefix(_ACCOUNT), event["verb"], resource)


def granted(documents: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Return the rights that roles among these objects give to our accounts, by the bindings among them."""
    every = list(documents)
    roles = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in every if one["kind"].endswith("Role")}
    found = set()
    for binding in every:
        if not binding["kind"].endswith("RoleBinding"):
            continue
        # Roles that are not among them are Kubernetes' own.
        rules = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]), ())
        accounts = [one["name"] for one in binding["subjects"] if one["name"].startswith("cotenant-")]
        found |= {Right(account, *what) for account in accounts for rule in rules for what in _of_rule(rule)}
    return found


def _of_rule(rule: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            plural, _, inner = resource.partition("/")
            yield from ((verb, _resource(group, plural, inner)) for verb in rule["verbs"])


def _resource(group: str, plural: str, inner: str) -> str:
    named = f"{plural}.{group}" if group else plural
    return f"{named}/{inner}" if inner else named


def read(text: str, *, source: str) -> dict[Right, str]:
    """Return a record.

    Raises:
        InvalidInputError: a line is none.
    """
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(maxsplit=3)
        if len(parts) != 4:
            raise errors.InvalidInputError(source, line, "write ACCOUNT VERB RESOURCE, and `used` or a reason")
        found[Right(*parts[:3])] = parts[3]
    return found


def written(head: str, known: Mapping[Right, str], *, may: Iterable[Right], did: Iterable[Right]) -> str:
    """Return the record again: what was done is used, and what is granted besides keeps its reason.

    `?` where it has none.
    """
    done = set(did)
    lines = [f"{right} {USED if right in done else _reason(known.get(right, ''))}" for right in sorted(may)]
    return "\n".join([head.rstrip("\n"), *lines, ""])


def _reason(before: str) -> str:
    return before if before not in {"", USED} else "?"
