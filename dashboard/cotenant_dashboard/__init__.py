"""The dashboard: GPUs, queue, predictions and shares of a cluster on a page, live. It reads Kubernetes objects and changes none."""
