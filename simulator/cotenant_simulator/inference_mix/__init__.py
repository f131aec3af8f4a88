"""Latency-sensitive inference beside training on shared GPUs, under one policy and another.

- **Placed** by the extender's own ledger and queue (`twin`), as they would be in a cluster.
- **Predicted**: what services and training jobs need, and how long a step takes, by the predictor from their graphs.
  What is predicted is taken for true: errors of prediction are another experiment's.
- **Modelled**: how fast tenants of one GPU are beside each other, by the predictor's model of co-location. Training
  sees of a service what it needs on average over its idle time. A service is slowed by its neighbours while it answers,
  so that its speed is that of one which never idles, beside the others as they are on average.
- **Assumed**: which services and jobs come, when, and how long they train (`population`); that a request is one step of
  the service's graph, and that requests come independently of each other.
- **Computed exactly**, given these: every request's time in its replica's queue (`serving`).

No figure of it was measured. Pure: the same seed gives the same figures.
"""
