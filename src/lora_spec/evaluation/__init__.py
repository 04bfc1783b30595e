"""Says how good predictions are: splits that leave whole sources out, scores with intervals, coverage.

Knows nothing of how a prediction was made, nor of what it will be used for.
"""
