"""Policies for tests of the gate: free ones (nothing is compiled for them), each of a kind of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fuzzkv.policies.evict import EVICT
from fuzzkv.semantics.ops.primitives import begin_store
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.vocabulary import NOTE, add_if, get
from tests.broken import CAREFUL_FREE, HASTY_FREE, IDLE_FREE, TIDY_FREE, free


def of_kind(kind: str, policy: Policy) -> Policy:
    """The same policy with another kind in its manifest."""
    return replace(policy, manifest=replace(policy.manifest, kind=kind))


def stores_only(s: Any, k: int) -> None:
    """Puts page 2 on the host, and gives up nothing."""
    begin_store(s, get(s, NOTE, k) == 0, k, 2)
    add_if(s, True, NOTE, k, 1)


def fails(s: Any, k: int) -> None:
    """Raises, with a text that no terminal should see as it is."""
    raise ValueError("no <page>\x1b[31m\nhere")


CAREFUL = of_kind("keep", CAREFUL_FREE)
"""Quotes page 1, which it has put on the host."""
TIDY = of_kind("tidy", TIDY_FREE)
"""Gives up page 1's host copy: alone it may, beside `careful` it takes what that one promised."""
REPAIRED = of_kind("tidy", free("repaired", stores_only))
"""The clean twin of `tidy`."""
OTHER_TIDY = of_kind("tidy", replace(TIDY_FREE, name="other-tidy"))
IDLE = of_kind("idle", IDLE_FREE)
HASTY = of_kind("hasty", HASTY_FREE)
"""Fails alone."""
RAISES = of_kind("raises", free("raises", fails))
UNDECLARED = replace(TIDY, name="undeclared", manifest=replace(TIDY.manifest, actions=()))
"""Does what its manifest doesn't declare."""
MY_EVICT = replace(EVICT, name="my-evict")
"""The default `evict` under another name: it breaks what that one breaks."""
