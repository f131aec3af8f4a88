"""What an experiment tells: one page of tables and figures, which is shown on a terminal, in Markdown and in HTML.

Experiments make pages (`page`); how they look is decided here alone. Pure: reads nothing, writes no file, knows no
experiment.
"""
