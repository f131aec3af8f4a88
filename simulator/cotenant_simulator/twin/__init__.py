"""The extender's leader in virtual time: its ledger and its queue, with pods that are bound as soon as they are lifted.

Nothing is decided here. What stands between a lift and a running container in a cluster (API server, kube-scheduler,
kubelet) takes no time.
"""
