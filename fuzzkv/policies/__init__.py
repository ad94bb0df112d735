"""The default policies, one file each, and the registry of names.

Each policy's docstring names its source and how faithful it is: [C] reference code was read, [P] the paper or
a formula-level summary was read, [S] a secondary summary, [D] vendor documentation, [R] a reconstruction of
ours that its authors don't state.
"""

from typing import Final

DEFAULT: Final = ("offload", "quant", "evict")
"""The policies that a command takes if nothing else is said."""
