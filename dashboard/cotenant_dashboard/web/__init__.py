"""Serves the page and its updates over HTTP: GET and HEAD, and nothing that changes anything."""
