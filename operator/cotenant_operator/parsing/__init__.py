"""Reading what tenants wrote: in a process of its own that holds no credentials, one document at a time."""
