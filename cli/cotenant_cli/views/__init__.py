"""What is shown, made of what was read: documents for programs, and lines for people. Pure: no clock, no I/O."""
