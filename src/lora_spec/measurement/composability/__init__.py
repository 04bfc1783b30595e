"""Which engine features work together: cells, their runs, what the runs show, what to do instead. Imports no engine.

Import the modules, not the package.
"""
