"""The conflict rule over plain integers: which arm of a schedule fails without a spare policy, and what follows from what.

Arms are the subsets of a policy set, by mask.  Compiled kernels put these functions, as they stand, behind the semantics, so
they keep to loops and integers.
"""

from __future__ import annotations

from collections.abc import Iterator


def is_subset(sub: int, mask: int) -> bool:
    """Whether every policy of ``sub`` is in ``mask``."""
    return sub & mask == sub


def smallest(failing: int, acted: int, mask: int) -> bool:
    """Whether arm ``mask`` fails, each of its policies acted, and every proper subset of it passes.

    Bit ``m`` of ``failing`` says that arm ``m`` fails; ``acted`` is the mask of the policies that acted in arm ``mask``.
    """
    if not failing >> mask & 1 or acted & mask != mask:
        return False
    for sub in range(mask):  # noqa: SIM110 (compiled kernels read this)
        if is_subset(sub, mask) and failing >> sub & 1:
            return False
    return True


def touches(cause: int, cause_page: int, page: int) -> bool:
    """Whether an earlier failure of invariant number ``cause`` can bring one on ``page`` with it: it is on the same page,
    or it is I2, where a frame given away too early may hurt any page.
    """
    return cause_page == page or cause == 2


def subsets(mask: int) -> Iterator[int]:
    """All proper subsets of a mask, the empty one first."""
    for sub in range(mask):
        if is_subset(sub, mask):
            yield sub
