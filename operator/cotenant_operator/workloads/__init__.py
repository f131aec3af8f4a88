"""What a DLJob becomes: Jobs, Deployments and their pod templates, and what their pods ask for. Pure."""
