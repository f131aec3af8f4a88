"""The node agent put together: kubelet, GPUs, MPS, late binding and the GPUNode of one real node.

Everything it decides is decided in the rooms beside; here are the tasks that carry it out.
"""
