"""The operator's benchmark: a thousand DLJobs at once, and ten thousand that are over."""
