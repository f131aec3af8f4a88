"""Late binding: from anonymous tokens to the GPU and the limits of the one pod that holds them.

What cannot be proven is refused. Knows GPUs and MPS by their interfaces alone, and never chooses a GPU.
"""
