"""What-if on a cluster: its jobs once more, under the policy in force and under another. No I/O.

`proposal` reads a policy, `cases` finds the jobs of a snapshot, `paces` tells how fast they ran, `drawing` draws what
is not known, `replay` runs them, `needing` counts GPUs, `figures` says what it came to, `report` and `savings`
make pages.
"""
