"""How fast pods are placed through Cotenant, against the same pods without it, on one control plane, in turn.

Only ratios say something of the software; pods per second say as much of the machine. Every GPU here is simulated.
It knows how to measure, and nothing of how the extender decides.
"""
