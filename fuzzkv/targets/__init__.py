"""Where a schedule runs."""
