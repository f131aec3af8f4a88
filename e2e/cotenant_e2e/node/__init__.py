"""A real node beside the simulated ones: containerd and kubelet as root, on this machine, one at a time.

It knows nothing of Cotenant: whoever runs an agent on the node starts it as one more process of the cluster.
"""
