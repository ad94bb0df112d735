"""Runs the command line: ``python -m fuzzkv``."""

from fuzzkv.cli import main

if __name__ == "__main__":
    main()
