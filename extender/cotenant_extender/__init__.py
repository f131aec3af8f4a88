"""The scheduler extender: ledger, packing, queue, filter and bind.

Decisions (`packing/`, `ledger`, `queue`) are pure; everything that talks to the API server or to
kube-scheduler sits at the rim. It never creates a pod and never reads a DLJob.
"""
