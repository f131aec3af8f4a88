"""Whether this extender leads, by a Lease whose times are of a clock that may be set."""

from cotenant_extender import leadership, records
from extender import builders
from extender.builders import NOW


def test_a_clock_that_is_set_before_there_is_a_lease_changes_nothing() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.clock_was_set(by=-5)
    leading.observe(records.lease_record(builders.lease("cotenant-scheduler", "host_12ab")))
    assert leading.remaining_seconds(now=NOW) == 15


def test_where_there_is_no_lease_it_leads_for_no_time() -> None:
    assert leadership.Leadership("host", assume=False).remaining_seconds(now=NOW) == 0


def test_a_lease_lasts_no_longer_for_a_clock_that_was_set_back() -> None:
    leading = leadership.Leadership("host", assume=False)
    leading.observe(records.lease_record(builders.lease("cotenant-scheduler", "host_12ab")))
    leading.clock_was_set(by=-5)
    assert leading.remaining_seconds(now=NOW - 5) == 15
    leading.observe(records.lease_record(builders.lease("cotenant-scheduler", "host_12ab", renewed=NOW - 4)))
    assert leading.remaining_seconds(now=NOW - 4) == 15
