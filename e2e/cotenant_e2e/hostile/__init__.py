"""A hostile namespace beside an honest one, on a real control plane: what ours weigh, and how long the honest wait.

`attacks` and `large_pods` say what is sent, as `requests`. `sender` sends it with a tenant's own token, in the process
of `attacker`. `honest` submits jobs and measures, `weights` reads the memory of processes, `limits` the limits of the
chart. `soak` puts it together. `verdict` says which bars were missed, `report` writes the tables.
"""
