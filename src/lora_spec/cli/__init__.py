"""The command line: arguments in, exit codes out; knows no science."""
