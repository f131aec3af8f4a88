"""From a model to the objects of a job, and what the job will need. The one room that asks the predictor, when it runs.

`objects` and `costs` are pure; `graphs` reads files and runs the user's callable in this process; nothing talks to a
cluster.
"""
