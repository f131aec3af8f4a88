"""What the page shows, made of objects that were read. Pure: no clock, no I/O; a time is a parameter."""
