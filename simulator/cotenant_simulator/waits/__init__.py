"""How long jobs of each size wait under each order of the queue.

`population` and `engine` make the jobs and the run; `experiment` is one run, `report` the page. Both are pure.
"""
