"""The case study of Horus (Yeung et al., HotCloud 2020): 100 jobs on 12 GPUs, by slots, by measuring, by prediction.

Graphs, utilization and interference are ours, by the shipped model; the published figures stand beside. No I/O.
"""
