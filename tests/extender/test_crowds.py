"""Random histories of a small cluster that is full."""

import hypothesis

from extender import crowds

crowds.Crowds.TestCase.settings = hypothesis.settings(max_examples=40, stateful_step_count=12, deadline=None)
TestCrowds = crowds.Crowds.TestCase
