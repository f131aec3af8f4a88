"""Partner choice on measured groups: who should share a GPU with whom, by each way to choose, against what was best.

Measured: speeds of pairs (and triples, where a set has them). Chosen: by rules and by models of the predictor, which
never learned from a group that they are judged by. The protocol is that of "Predicting workload colocations under GPU
spatial sharing" (KACE). No I/O, nothing simulated; figures of a set that a simulated GPU gave are called simulated.
"""
