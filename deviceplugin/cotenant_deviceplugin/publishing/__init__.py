"""What the GPUNode says, from what the agent sees. Pure: it neither writes nor asks anybody."""
