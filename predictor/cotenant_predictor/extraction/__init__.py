"""Graph documents from PyTorch, from ONNX files and from Hugging Face configurations; nothing is run on a GPU.

`extractor` is one file that travels alone into an image that has only torch. The rest belongs to this machine. None of
it loads weights or writes a file.
"""
