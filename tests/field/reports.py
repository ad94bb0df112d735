"""All reports, in the order of the design's lists."""

from __future__ import annotations

from tests.field.design_s4 import REPORT as DESIGN_S4
from tests.field.design_s5 import REPORT as DESIGN_S5
from tests.field.design_s6 import REPORT as DESIGN_S6
from tests.field.design_s8 import REPORT as DESIGN_S8
from tests.field.design_s9 import REPORT as DESIGN_S9
from tests.field.design_s10 import REPORT as DESIGN_S10
from tests.field.lmcache_1034 import REPORT as LMCACHE_1034
from tests.field.lmcache_4991 import REPORT as LMCACHE_4991
from tests.field.mlxvlm_1715 import REPORT as MLXVLM_1715
from tests.field.report import Report
from tests.field.sglang_27631 import REPORT as SGLANG_27631
from tests.field.sglang_31427 import REPORT as SGLANG_31427
from tests.field.trtllm_11879 import REPORT as TRTLLM_11879
from tests.field.vllm_44250 import REPORT as VLLM_44250
from tests.field.vllm_45357 import REPORT as VLLM_45357
from tests.field.vllm_46971 import REPORT as VLLM_46971
from tests.field.vllm_48412 import REPORT as VLLM_48412
from tests.field.vllm_49674 import REPORT as VLLM_49674
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
    VLLM_44250,
    LMCACHE_4991,
    TRTLLM_11879,
    LMCACHE_1034,
    VLLM_49674,
    VLLM_46971,
    DESIGN_S4,
    DESIGN_S5,
    DESIGN_S6,
    DESIGN_S8,
    DESIGN_S9,
    DESIGN_S10,
)
"""Thirteen public reports, then rows of the design."""
