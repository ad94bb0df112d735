"""All reports, in the order of the design's lists."""

from __future__ import annotations

from tests.field.mlxvlm_1715 import REPORT as MLXVLM_1715
from tests.field.report import Report
from tests.field.sglang_27631 import REPORT as SGLANG_27631
from tests.field.sglang_31427 import REPORT as SGLANG_31427
from tests.field.vllm_45357 import REPORT as VLLM_45357
from tests.field.vllm_48412 import REPORT as VLLM_48412
from tests.field.vllm_50702 import REPORT as VLLM_50702
from tests.field.vllm_53505 import REPORT as VLLM_53505

REPORTS: tuple[Report, ...] = (
    VLLM_48412,
    VLLM_50702,
    VLLM_45357,
    SGLANG_31427,
    SGLANG_27631,
    VLLM_53505,
    MLXVLM_1715,
)
"""Thirteen public reports, then rows of the design."""
