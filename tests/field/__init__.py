"""Conflicts from the field, as policies written against ``fuzzkv.api`` alone: one module a report."""
