"""Builds the container images that are shipped, from `images/`, with whatever engine this machine has.

It starts no container of them and knows nothing of a cluster.
"""
