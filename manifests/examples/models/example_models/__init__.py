"""Models whose graphs the examples use, by torchvision's and transformers' own definitions, and what extracts them.

Each function returns what `cotenant extract` asks of a callable. Weights are never loaded, nothing is downloaded:
models are built from their configuration on the meta device.
"""
