"""The design's names of conflicts among the default policies."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[tuple[tuple[str, ...], str, str], str] = {
    (("evict", "offload"), "I1", "drop_host"): "S1",
    (("offload", "quant"), "I1", "drop_host"): "S2",
    (("evict", "offload"), "I14", "step"): "S3",
    (("evict", "quant"), "I18", "drop_host"): "S7",
}
"""Policies, invariant and primitive of a conflict -> its name in the design."""
ACTORS: Mapping[str, str] = {"S1": "evict", "S2": "quant"}
"""Who breaks the invariant in a conflict of this name; in one that isn't listed it may be any of its policies."""
