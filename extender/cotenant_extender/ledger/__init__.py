"""The ledger: which pod counts where, as a value that events change. Pure: no I/O, the time is a parameter.

Work per event does not grow with the cluster; nothing is rebuilt for a request. Events may be repeated, and a list
may replace what watches missed. What cannot be read closes, never opens.
"""
