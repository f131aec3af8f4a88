"""A device to test with: a modelled GPU, its driver's management library, and a stand-in for the MPS control program.

The GPU is a folder: `device.json` says what it is, `tenants/PID.json` what each process holds and does. Every result
measured here says that it is simulated; no figure from here says anything about a real GPU.
"""
