"""Measurements as arrays: the sets that ship with their licences, and measurement files of one's own.

Reads and checks. Does not split, learn, score or fill in what was not measured.
"""
