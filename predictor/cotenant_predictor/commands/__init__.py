"""The predictor's subcommands of `cotenant`; modules import nothing heavy before `run`."""
