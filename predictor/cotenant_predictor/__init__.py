"""From a computation graph to what a job will need of a GPU.

A library and its commands: it reads graphs and device data and returns predictions. It never talks to a
cluster, serves nothing, and imports torch only where a model is extracted.
"""
