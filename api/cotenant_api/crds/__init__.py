"""CustomResourceDefinitions, generated from the types so that there is one source.

Writes nothing and talks to no cluster: `cotenant crds` does the writing.
"""
