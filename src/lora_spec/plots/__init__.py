"""Draws each figure and the verdict table from one declared table; knows nothing of how its numbers came about.

Import the modules, not the package: ``schemas``, ``context`` and ``verdict_table`` work without matplotlib.
"""
