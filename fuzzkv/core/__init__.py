"""What every other package may use: child processes and where they run.  Standard library only."""
