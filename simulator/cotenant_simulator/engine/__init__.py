"""Jobs that run together in virtual time: what they really need, how fast they are beside each other, what they lose.

Placement is the extender's (`twin`), and speeds are the predictor's model of co-location; here time passes. Pure: the
same jobs give the same history. It knows no file, no plot and no published figure; `figures` makes of histories what
pages draw.
"""
