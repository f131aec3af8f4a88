"""Agents of nodes whose GPUs do not exist. Whatever they publish says so; no real device is ever touched."""
