"""The demo: a control plane, Cotenant on it, the examples, a live table and a summary.

What is shown is computed by pure functions from objects of the API server; nothing here decides a placement.
"""
