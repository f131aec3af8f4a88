"""What was learned, as a document: written whole, read without running code, refused when it is of another version.

Knows how the parts are stored, not how they are learned (`training`) or used (`kernels`, `jobs`, `colocation`).
"""
