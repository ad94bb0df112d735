"""Canonical JSON, atomic writes, options, child processes and the words of reports: what every floor above stands on."""
