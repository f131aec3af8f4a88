"""Random histories in which nothing happens for long: no GPU is held and stands empty for longer than is stated."""

import hypothesis

from extender import standstills

standstills.Standstills.TestCase.settings = hypothesis.settings(max_examples=40, stateful_step_count=10, deadline=None)
TestStandstills = standstills.Standstills.TestCase
