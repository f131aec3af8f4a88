"""The only place that learns: scikit-learn estimators whose fitted values the other packages use with numpy alone.

Estimators take arrays; they read no file and know no GPU by name.
"""
