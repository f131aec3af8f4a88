"""A cluster in memory, for tests of the operator: an API server, the controllers of Jobs and Deployments, a
scheduler. Nothing that runs in a cluster imports this package.
"""
