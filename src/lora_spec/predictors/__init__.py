"""Guesses acceptance from an adapter's columns, with an interval and a word on how far it is from what was seen.

Knows nothing of time, load or actions: what an acceptance is worth is not its business.
"""
