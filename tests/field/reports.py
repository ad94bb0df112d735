"""All reports, in the order of the design's lists."""

from __future__ import annotations

from tests.field.report import Report
from tests.field.vllm_45357 import REPORT as VLLM_45357
from tests.field.vllm_48412 import REPORT as VLLM_48412
from tests.field.vllm_50702 import REPORT as VLLM_50702

REPORTS: tuple[Report, ...] = (
    VLLM_48412,
    VLLM_50702,
    VLLM_45357,
)
"""Thirteen public reports, then rows of the design."""
