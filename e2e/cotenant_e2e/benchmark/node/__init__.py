"""Measures the node agent on a real kubelet and containerd: its calls, what they add to a start, what it weighs.

The GPUs are stand-ins. What NVIDIA's parts would take is not in any figure; what the stand-in's take is said beside it.
"""
