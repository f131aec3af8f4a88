"""The end of an installation: what must happen before Helm takes its objects away."""
