"""The documentation site: its links, its generated reference, and the blocks of code that tests execute.

Nothing here knows a cluster, and no text of a page is written here: pages are Markdown that reads well without it.
"""
