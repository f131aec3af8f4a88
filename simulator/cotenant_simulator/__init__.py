"""Replays traces through the packing functions that serve a cluster, and compares placements.

May import `cotenant_api`, `cotenant_predictor` and `cotenant_extender.packing`; no server, no Kubernetes library.
"""
