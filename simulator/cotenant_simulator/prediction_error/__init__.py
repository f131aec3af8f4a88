"""How the gains of packing by prediction decay as predictions get worse, on the jobs and GPUs of the Horus study.

Simulated: placement, sharing, out of memory, as in `horus`. Assumed: what is believed of a job is what it needs times a
lognormal factor; jobs are what the shipped model predicts of them. Reality is the same for every error, so that ways
that do not look at predictions come to the same. No I/O.
"""
