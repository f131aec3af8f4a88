"""What is wrong with this machine, and what to do about it: `cotenant node-doctor`.

`reading` reads once, `machine` is what was read, `checks` judge it. Nothing is changed, and no process is started but
NVIDIA's: the control program of MPS, which is asked what the agent asks it, and nvidia-ctk, where the agent needs it.
"""
