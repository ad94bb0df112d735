"""The first state of a run: an open machine with empty frames, its costs, and the policies' parameters and
manifests.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzzkv.errors import UsageError
from fuzzkv.semantics import calibration
from fuzzkv.semantics.layout import CLOSED, COLUMNS, FREE, NCLAUSE, ND, NH, NP, NPARAM, PAGES, SIZE
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config


def first_state(config: Config, policies: Sequence[Policy], *, enforce: bool = False) -> list[int]:
    """A fresh state (``SIZE`` integers).  Raises ``UsageError`` (FKV032) for a size that the scope doesn't
    hold.
    """
    for name, value, least, most in (
        ("device_frames", config.device_frames, 1, ND),
        ("host_frames", config.host_frames, 0, NH),
        ("step_cost", config.step_cost, 1, 10_000),
        ("page_cost", config.page_cost, 1, 10_000),
        ("objective", config.objective, 1, 1_000_000),
        ("tolerance", config.tolerance, 0, 1_000_000),
        ("ledger", config.ledger, 0, 1000),
        ("headroom", config.headroom, 0, 1000),
        ("calibration", config.calibration, calibration.VERSION, calibration.VERSION),
    ):
        if not least <= value <= most:
            raise UsageError(
                code="FKV032",
                value=f"{name}={value}",
                reason=f"is outside {least} to {most}",
                cure="Choose one within.",
            )
    s = [0] * SIZE
    c = COLUMNS
    s[c["ENFORCE"] : c["ENFORCE"] + NCLAUSE] = [int(enforce)] * NCLAUSE
    s[c["ACTOR"]] = -1
    s[c["STEP_COST"]], s[c["PAGE_COST"]] = config.step_cost, config.page_cost
    s[c["TOLERANCE"]] = config.tolerance
    s[c["OBJECTIVE"]], s[c["LEDGER"]], s[c["HEADROOM"]] = config.objective, config.ledger, config.headroom
    for n in range(1, PAGES + 1):
        s[c["SHARE"] + n] = calibration.ABSENT[n]
        s[c["QSHARE"] + n] = calibration.INT4[n]
    for name in ("DEV", "HOST"):
        for p in range(NP):
            s[c[name] + p] = -1
    for f in range(ND):
        s[c["D_PAGE"] + f] = FREE if f < config.device_frames else CLOSED
    for f in range(NH):
        s[c["H_PAGE"] + f] = FREE if f < config.host_frames else CLOSED
    for k, policy in enumerate(policies):
        for i, value in enumerate(policy.parameters.values()):
            s[c["PARAM"] + k * NPARAM + i] = value
        s[c["MF_HORIZON"] + k] = policy.manifest.evidence.horizon
    return s
