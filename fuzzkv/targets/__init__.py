"""Where a schedule runs, and the environments of the engines that run it."""
