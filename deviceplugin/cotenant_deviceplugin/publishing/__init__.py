"""What the GPUNode says, from what the agent sees. Pure, but for `observing`, which asks the hardware.

Writes nothing and asks nobody else.
"""
