"""What-if on a cluster: its jobs once more, under the policy in force and under another. No I/O.

`proposal` reads a policy, `cases` finds the jobs of a snapshot, `drawing` draws what is not known of them, `replay`
runs them, `needing` counts GPUs, `figures` says what it came to, and `report` and `savings` make the page.
"""
