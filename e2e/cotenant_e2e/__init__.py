"""A real Kubernetes control plane on this machine, the demo and the benchmark that run on it.

Not part of the distribution: it starts what an admin would install, from the outside.
"""
