"""What the ledger charges: recall that a lost or lossy page costs, measured on the engine.

Per session of 1 to 8 pages of 32 tokens, permille of its questions that full cache answers and the candidate doesn't, net of those that only
the candidate answers: the one-sided 95 % upper bound of the paired loss, rounded up, on exact recall by SmolLM2-135M
(``bench/calibrate_quality.py`` measures them and prints this table; sessions that weren't measured are charged in proportion).
"""

from __future__ import annotations

VERSION = 1
"""Changes with the numbers; cases carry it in their configuration."""

ABSENT: tuple[int, ...] = (0, 1000, 500, 280, 207, 165, 125, 115, 99)
"""By pages of the session: charge of one page that is deleted for good."""
INT4: tuple[int, ...] = (0, 180, 90, 60, 44, 38, 33, 31, 28)
"""By pages of the session: charge of one page that stays at 4 bits for good."""
