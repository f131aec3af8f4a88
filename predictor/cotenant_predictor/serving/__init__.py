"""What a server of a language model needs of a GPU: from its command line, and from the model's `config.json`.

Pure arithmetic: no torch, no network, no file. What it does not know, it refuses.
"""
