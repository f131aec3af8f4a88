"""A live cluster as one snapshot: what packing depends on, and nothing else.

`snapshot` is the document, `reading` and `dcgm` make it of raw objects and answers by an allow-list, `redaction` takes
the names out: all pure. `taking` lists through what it is given; `prometheus` talks, by GET alone, and
decides nothing; objects are listed by the command line's own reader. No module may import a Kubernetes library.
"""
