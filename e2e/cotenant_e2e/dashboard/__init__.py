"""The dashboard in a real browser: a made-up cluster, a server for it, Chromium, and what is measured there."""
