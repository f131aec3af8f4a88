"""Jobs together on one GPU: the speed that each keeps, the best partner, and how to split the threads.

Pure arithmetic over arrays with numpy alone. What is learned comes in as a value; nothing here learns or reads a file.
"""
