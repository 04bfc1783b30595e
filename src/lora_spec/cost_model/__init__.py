"""Turns an acceptance estimate and a load into time: T_K(B), speedup, goodput, break-even.

Knows nothing of adapters or predictors: it takes an acceptance with its interval, whoever made it.
"""
