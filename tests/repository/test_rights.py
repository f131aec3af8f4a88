"""RBAC equals use: what our accounts are granted is what was used, or it is said why it is granted all the same."""

from cotenant_e2e import charts, rights

RECORD = rights.read(charts.RIGHTS.read_text(), source=str(charts.RIGHTS))
GRANTED = rights.granted(charts.access())


def test_everything_that_is_granted_was_used_or_has_its_reason() -> None:
    unexplained = sorted(str(right) for right in GRANTED if len(RECORD.get(right, "?")) < len(rights.USED))
    assert not unexplained, "run `make rbac-used`; remove these, or write the reason into manifests/rbac/rights.txt"


def test_the_record_names_nothing_that_is_not_granted() -> None:
    assert not sorted(str(right) for right in RECORD.keys() - GRANTED), "run `make rbac-used`"


def test_every_account_is_there_with_what_it_is_for() -> None:
    accounts = {right.account for right in GRANTED}
    assert accounts == {f"cotenant-{name}" for name in ("dashboard", "node-agent", "operator", "retraining")} | {
        "cotenant-scheduler",
        "cotenant-test",
        "cotenant-uninstall",
    }
