"""Packing: which GPUs a pod goes to, and why others refuse it.

Pure functions of frozen values `(view, request, policy) -> placement or rejection`. Imports nothing but the standard
library, numpy, `cotenant_api`, and in `speeds` alone `cotenant_predictor`: no clock, no I/O, no randomness, no web or
Kubernetes library.
"""
