"""The API server as the agent sees it: requests, watches, what is remembered of them.

Decides nothing: no GPU, no limit, no kubelet is known here.
"""
