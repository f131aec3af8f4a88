"""An ONNX file in, a graph document out: node by node, without weights and without running anything.

Needs the onnx package; knows nothing of PyTorch. `document` is the surface, `walk` goes through the nodes.
"""
