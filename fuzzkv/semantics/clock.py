"""Virtual time."""

from __future__ import annotations

from fuzzkv.semantics.facts import slot
from fuzzkv.semantics.vocabulary import *


def pass_time(s: State, g: Bool, ticks: Int) -> None:
    """Time passes; device capacity that isn't used by owned pages is summed up in quarter frames x ticks."""
    guard(g)
    freed = 0
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        d = get(s, DEV, p)
        level = get(s, D_PREC, slot(d))
        lossy = ite(level == INT8, 2, ite(level == INT4, 3, 0))
        freed = freed + ite(get(s, OWNED, p) == 0, 0, ite(d < 0, 4, lossy))
    add_if(s, g, FREED, 0, freed * ticks)
    add_if(s, g, NOW, 0, ticks)
