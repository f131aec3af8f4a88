"""The command lines: arguments, and what is shown as asked for. Decides nothing about objects."""
