"""Arrivals of a production cluster over jobs that were measured in pairs: what each way to share is worth there.

`trace` reads the arrivals, `population` makes jobs and a cluster of them, `truths` say how fast jobs are together,
`settings` are the ways that are compared, `experiment` is one run and `report` the page. No truth is what a way places
by, but for the formula's, which is named so. Pure but for the files of the package.
"""
