"""The jobs that the shipped public measurements are of, as far as their papers and repositories describe them.

Written anew from those descriptions; nothing is downloaded. `python -m published_models --write
predictor/cotenant_predictor/datasets` makes the graph documents that training and evaluation read, and `--only horus
--write simulator/cotenant_simulator` those of the job mix that the simulator replays.
"""
