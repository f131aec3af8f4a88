"""Measuring jobs on a real GPU, alone and together: one file per result, resumable, changing no setting of the GPU.

Runs where there is only Python, torch, numpy and nvidia-ml-py: imports nothing of the project but itself.
"""
