"""Packing: which GPUs a pod goes to, and why others refuse it.

Pure functions of frozen values `(view, request, policy) -> placement or rejection`. Imports nothing but the standard
library, numpy and `cotenant_api`: no clock, no I/O, no randomness, no web or Kubernetes library.
"""
