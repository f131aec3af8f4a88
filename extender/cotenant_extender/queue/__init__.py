"""The packing queue: whose gate is lifted next, onto which GPUs, and what those who wait are told.

Pure over the ledger: the time is a parameter, and what is to be done outside comes back as values. It never lifts a
gate without an earmark, and nothing at all while the policy is paused or observes.
"""
