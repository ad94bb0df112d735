"""The solver: what the one text of the semantics says about schedules and states that aren't known."""
