"""How long one operator takes on one GPU: the roofline and the share of it that real kernels reach.

Pure arithmetic over arrays with numpy alone. What is learned comes in as a value; nothing here learns or reads a file.
"""
