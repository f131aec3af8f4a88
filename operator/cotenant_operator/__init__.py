"""The operator: a DLJob's way from apply to its end.

Decisions are pure functions of observed objects; kopf's handlers are the rim. It never chooses a GPU and
never imports a user's code.
"""
