"""Publishes images and chart to a container registry, with signatures and package lists.

It builds nothing and asks no cluster. It names no registry: whoever releases names one.
"""
