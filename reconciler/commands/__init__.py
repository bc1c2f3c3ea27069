"""The commands, one a file. Each reads its arguments, has the work done, and gives an exit code."""
