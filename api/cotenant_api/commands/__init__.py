"""The subcommands of `cotenant` that need nothing but the API package."""
