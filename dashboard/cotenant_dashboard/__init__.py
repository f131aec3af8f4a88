"""A live page of a cluster: GPUs, queue, predictions, shares. It reads Kubernetes objects and changes none."""
