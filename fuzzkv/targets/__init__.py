"""Where schedules run: the environments of engines, in this Python and in others."""
