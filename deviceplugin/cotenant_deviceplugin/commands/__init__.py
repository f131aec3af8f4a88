"""The subcommands of `cotenant` that run on a node. They read arguments; what they start lives elsewhere."""
