"""Runs a schedule on the semantics: interpreters, histories, the compiled search kernel."""
