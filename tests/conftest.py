"""How property tests are run: the same examples each time, and never against the clock.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

import hypothesis

hypothesis.settings.register_profile("repeat", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("repeat")
