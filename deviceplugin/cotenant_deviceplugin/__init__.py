"""What runs on a node: the hardware interface, its simulated GPUs, and the GPUNode that tells of them.

It never decides where a pod goes, and stays small: no numpy, no web framework.
"""
