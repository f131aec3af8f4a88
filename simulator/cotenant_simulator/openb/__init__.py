"""The published fragmentation experiment on the openb trace: arrival order, replay, accounts, self-check.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX
ATC 2023. Only `trace` and `expected` read files; nothing here reads a clock of its own or prints.
"""
