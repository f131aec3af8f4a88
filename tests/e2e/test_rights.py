"""What is read from an audit log, and what a record says of it."""

import json
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_e2e import rights
from cotenant_e2e.rights import Right

OPERATOR = "system:serviceaccount:cotenant-system:cotenant-operator"
LISTED = Right("cotenant-operator", "list", "jobs.batch")
PATCHED = Right("cotenant-operator", "patch", "dljobs.cotenant.dev/status")
REMOVED = Right("cotenant-operator", "delete", "pods")


def event(**changed: Any) -> str:
    subject = {"apiGroup": "batch", "resource": "jobs"}
    found: dict[str, Any] = {"user": {"username": OPERATOR}, "verb": "list", "objectRef": subject, "userAgent": "ours"}
    found["annotations"] = {"authorization.k8s.io/decision": "allow"}
    return json.dumps({**found, **changed})


def test_what_a_program_of_ours_was_let_do_is_used() -> None:
    status = {"apiGroup": "cotenant.dev", "resource": "dljobs", "subresource": "status"}
    assert rights.used([event(), event(verb="patch", objectRef=status), '{"user":']) == {LISTED, PATCHED}


@pytest.mark.parametrize(
    "changed",
    [
        {"user": {"username": "system:serviceaccount:team:tenant"}},
        {"annotations": {"authorization.k8s.io/decision": "forbid"}},
        {"userAgent": ""},
        {"userAgent": "kubectl/v1"},
        {"objectRef": None},
    ],
)
def test_what_others_did_with_a_token_of_ours_is_not(changed: dict[str, Any]) -> None:
    assert rights.used([event(**changed)]) == set()


def test_roles_give_what_their_bindings_say() -> None:
    rule = {"apiGroups": ["", "batch"], "resources": ["jobs", "jobs/status"], "verbs": ["get"]}
    role = {"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [rule]}
    other = {"kind": "ClusterRole", "metadata": {"name": "people"}, "rules": [rule]}
    subjects = [{"name": "cotenant-operator"}, {"name": "job-controller"}]
    bindings = [
        {"kind": "ClusterRoleBinding", "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": subjects}
        for name in ("r", "system:kube-scheduler")
    ]
    found = rights.granted([role, other, *bindings])
    assert {str(one) for one in found} == {
        f"cotenant-operator get {resource}" for resource in ("jobs", "jobs/status", "jobs.batch", "jobs.batch/status")
    }


def test_a_record_keeps_its_reasons_and_forgets_what_is_not_granted() -> None:
    text = f"# head\n{LISTED} used\n{PATCHED} in a case that is rare\n{REMOVED} used\n"
    known = rights.read(text, source="rights.txt")
    again = rights.written("# head", known, may=[PATCHED, LISTED], did=[])
    assert again == f"# head\n{LISTED} ?\n{PATCHED} in a case that is rare\n"
    assert rights.written("# head", known, may=[PATCHED], did=[PATCHED]) == f"# head\n{PATCHED} used\n"


def test_a_line_without_a_word_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"rights\.txt: .*write ACCOUNT VERB RESOURCE"):
        rights.read("cotenant-operator get pods\n", source="rights.txt")
