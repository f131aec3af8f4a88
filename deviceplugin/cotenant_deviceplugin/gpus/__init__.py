"""The GPUs of a node: what can be asked of them, NVML behind it, and their health.

Knows no Kubernetes object and no kubelet; who may use a GPU is decided elsewhere.
"""
