"""The command line: arguments, and what is started. Decides nothing about objects."""
