"""The extractor: runs one step of a model on PyTorch's meta device and lists its operators.

It stands alone, so that it can be taken into an image that has only torch: torch >= 2.1 and the standard library,
Python >= 3.9, nothing of Cotenant. Copied or zipped, the folder is whole. It allocates no weights, touches no
GPU, writes no file, and returns plain dicts in the shape of a graph document; `step.extract` is its surface.
"""
