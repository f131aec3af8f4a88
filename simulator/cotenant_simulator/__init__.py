"""Replays traces and runs jobs in virtual time through the functions that serve a cluster, and compares policies.

May import `cotenant_api`, `cotenant_predictor` and what decides in `cotenant_extender`; no server and no Kubernetes
library.
"""
