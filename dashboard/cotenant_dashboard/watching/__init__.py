"""Keeps what the page shows up to date: watches, the store that they fill, and who may look. Serves nothing."""
