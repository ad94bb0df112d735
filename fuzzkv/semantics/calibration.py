"""Calibrated costs of the quality ledger: answers that a lost or lossy page costs, measured on the engine, in permille.

Per session of 1 to 8 pages of 32 tokens: the one-sided 95 % upper bound of the cache-induced failure rate (of
the answers that full cache gets right, the share that the candidate gets wrong), in permille, on exact recall
by SmolLM2-135M.  Measured for 4, 6 and 8 pages by ``bench/calibrate_quality.py``, which prints this table;
the rest lies between them or is charged in proportion.
"""

from __future__ import annotations

VERSION = 1
"""Changes with the numbers; cases carry it in their configuration."""

ABSENT: tuple[int, ...] = (0, 1000, 600, 430, 330, 275, 225, 225, 225)
"""By pages of the session: charge of one page that is deleted for good."""
INT4: tuple[int, ...] = (0, 320, 160, 107, 80, 64, 55, 50, 46)
"""By pages of the session: charge of one page that stays at 4 bits for good."""
