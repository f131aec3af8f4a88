"""One job on each GPU model: how long its step takes, how much of the GPU that is, and how much memory.

Pure arithmetic over arrays: no I/O, no clock, and nothing here learns (that is `cotenant_predictor.training`).
"""
