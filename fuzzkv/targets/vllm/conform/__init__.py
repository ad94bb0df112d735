"""Trace conformance: what an engine did on a schedule, made again on the model, and every difference between the two named.

The semantics stay in :mod:`fuzzkv.semantics`; nothing in here says what a page event means. ``looking`` writes what an engine says of
itself into the page-event log; ``mirror`` is a run of the model whose one policy replays decisions; ``translate`` turns the log into
such a run; ``compare`` holds the two against each other; ``known`` lists the gaps of the model that are known, each a narrow
predicate; ``small`` draws schedules within the model's size; ``conformance`` is the way of a whole run.
"""
