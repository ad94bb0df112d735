"""Reports: listeners of the event stream (console, NDJSON)."""
