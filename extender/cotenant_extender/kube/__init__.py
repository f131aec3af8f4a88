"""The Kubernetes API at the rim: bytes and JSON in, JSON out. It decides nothing.

Everything goes through the `transport.Transport` protocol, so that tests put an API server in memory behind it.
"""
