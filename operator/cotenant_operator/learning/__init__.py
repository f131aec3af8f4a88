"""What was measured of jobs, kept for the next job of the same graph and for training. No I/O, and no decisions."""
