"""All that a policy's module needs: ``from fuzzkv.api import *``.

Two ways to write a policy.  A **class** in ordinary Python: subclass ``Custom`` and write ``act(self,
cache)``.  A **rule** in the vocabulary: ``def rule(s, k)``, and a ``Policy`` around it; it is compiled and the
solver can read it.  docs/writing-a-policy.md leads through both.
"""

from __future__ import annotations

from fuzzkv.semantics import facts as _facts
from fuzzkv.semantics import vocabulary as _vocabulary
from fuzzkv.semantics.contract.evidence import COPY_IN, COPY_OUT, Action, Evidence, Manifest
from fuzzkv.semantics.facts import *
from fuzzkv.semantics.layout import PRIMITIVES as _PRIMITIVES
from fuzzkv.semantics.ops.groups import kept_boundary
from fuzzkv.semantics.ops.index import cached_only
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.ops.transfers import entry_of
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.semantics.schedule import EXTRA
from fuzzkv.semantics.view import Cache, Custom, Page, does
from fuzzkv.semantics.vocabulary import *

globals().update(OPERATIONS)

__all__ = [
    "COPY_IN",
    "COPY_OUT",
    "EXTRA",
    "Action",
    "Cache",
    "Custom",
    "Evidence",
    "Manifest",
    "Page",
    "Policy",
    "Rule",
    "cached_only",
    "does",
    "entry_of",
    "kept_boundary",
    *_vocabulary.__all__,
    *(name for name in OPERATIONS if name in _PRIMITIVES),
    *(name for name, value in vars(_facts).items() if getattr(value, "__module__", "") == _facts.__name__),
]
