"""What simulating a cluster costs: CPU time and memory of whole runs, at several sizes."""
