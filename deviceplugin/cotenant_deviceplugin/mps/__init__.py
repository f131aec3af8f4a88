"""NVIDIA MPS: its control daemons, servers and limits, and the modes of a GPU.

Knows GPUs by UUID and processes by PID; no kubelet and no Kubernetes object.
"""
