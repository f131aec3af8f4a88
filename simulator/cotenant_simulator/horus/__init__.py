"""The case study of Horus (Yeung et al., HotCloud 2020): 100 jobs on 12 GPUs, by slots, by measuring, by prediction.

Simulated: time, queue, placement (the extender's own), out of memory. Modelled: what jobs need and how fast they are
together, by the shipped model. Published: the setting, the mix of models, the error of prediction, the table that
stands beside (`published`). Assumed: all that the study does not say (`population.Assumed`, varied by `variation`).
Measured: nothing of ours. No I/O.
"""
