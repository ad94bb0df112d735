"""The model as a target: the semantics run on the Python interpreter, policies as ordinary rules."""
