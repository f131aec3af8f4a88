"""What is sent to a cluster beside GET, and the only room that does: applying, evicting, and asking for rights."""
