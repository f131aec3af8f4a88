"""The command line of the simulator: reads arguments and files, prints; decides nothing."""
