"""Inference with a deadline beside training on one device, under each way to share it, measured.

Everything here needs the standard library alone, so that it also runs on a GPU machine where only torch is
installed. `worker` and `networks` are what the measured processes run: they need torch. Tables and plots are made in
`report` and `plots`. Nothing here decides how a device is shared: that is `cotenant_runtime`.
"""
