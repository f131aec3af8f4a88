"""Requests to the API server, and its refusals. Decides nothing."""
