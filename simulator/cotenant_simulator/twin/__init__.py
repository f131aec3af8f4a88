"""The extender's leader in virtual time: its ledger and its queue, with pods that are bound when they are told to be.

Nothing is decided here. What stands between a lift and a running container in a cluster (API server, kube-scheduler,
kubelet) takes as long as whoever drives it says.
"""
