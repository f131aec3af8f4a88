"""Emptying a node of pods with GPUs. `order` is pure; `loop` does what it is given the means for, and no I/O itself."""
