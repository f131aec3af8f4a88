"""kopf and the listings: what the API server tells goes into the observed state. Decides nothing."""
