"""What decisions are made of: the actions to be done, and where a DLJob stands. Values only."""
