"""The loop around the decisions: which DLJob is due, what it looks like, and the actions that were decided, done."""
