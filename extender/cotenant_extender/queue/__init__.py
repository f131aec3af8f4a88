"""The packing queue: whose gate is lifted next, onto which GPUs, who leaves for it, and what those who wait are told.

Pure over the ledger: the time is a parameter, and what is to be done outside comes back as values. It lifts a gate only
with an earmark or, where nothing fits, for an autoscaler to see; and nothing at all while the policy is paused or
observes. It never says that a pod is to be deleted for another.
"""
