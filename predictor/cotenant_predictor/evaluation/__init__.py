"""How far off predictions are: splits, baselines as published, metrics with intervals over groups, tables and plots.

Scores what others predict. Must not tune anything, nor look at a held-out label before it scores it.
"""
