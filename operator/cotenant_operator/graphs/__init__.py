"""Where a DLJob's computation graph comes from, and the prediction that is made of it. Never imports a user's code."""
