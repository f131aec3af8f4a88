"""A hostile namespace beside an honest one, on a real control plane: what ours weigh, and how long the honest wait.

`attacks` says what is sent, `attacker` sends it with a tenant's own token, `honest` submits jobs and measures,
`weights` reads the memory of our processes, `soak` puts it together, `report` tells. Nothing here decides what is good
enough.
"""
