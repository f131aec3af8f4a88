"""What is read of a cluster. `kube` alone talks, by GET; `cluster` lists through what it is given; the rest is pure."""
