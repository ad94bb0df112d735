"""All reports, in the order of the design's lists."""

from __future__ import annotations

from tests.field.design_s4 import REPORT as DESIGN_S4
from tests.field.design_s5 import REPORT as DESIGN_S5
from tests.field.design_s6 import REPORT as DESIGN_S6
from tests.field.design_s8 import REPORT as DESIGN_S8
from tests.field.design_s9 import REPORT as DESIGN_S9
from tests.field.design_s10 import REPORT as DESIGN_S10
from tests.field.report import Report
from tests.field.vllm_48412 import REPORT as VLLM_48412

REPORTS: tuple[Report, ...] = (
    VLLM_48412,
    DESIGN_S4,
    DESIGN_S5,
    DESIGN_S6,
    DESIGN_S8,
    DESIGN_S9,
    DESIGN_S10,
)
"""Thirteen public reports, then rows of the design."""
