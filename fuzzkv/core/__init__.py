"""Canonical JSON, atomic writes, options and the words of reports: what every floor above stands on."""
