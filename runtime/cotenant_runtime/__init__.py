"""Space-time sharing of one GPU: a training job makes room for an inference job with a deadline.

It runs inside the containers of users, in their Python. It needs the standard library, and torch only where
a training job is gated. It must not import another package of Cotenant or a server framework, must not talk
to a cluster, and must never end or change a job: what it cannot read, it ignores, and the job runs as before.
"""
