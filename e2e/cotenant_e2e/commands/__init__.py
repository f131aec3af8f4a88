"""The subcommands of `python -m cotenant_e2e`: each a module with SUMMARY, configure(parser) and run(arguments)."""
