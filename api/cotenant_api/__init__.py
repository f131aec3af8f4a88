"""The objects, documents and words that Cotenant's components share.

Types, names, units and errors only: nothing here talks to a cluster, a device or a model, and nothing
here may import another component.
"""

__version__ = "0.1.0"
