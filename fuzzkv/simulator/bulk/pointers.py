"""Calls of a rule by its address, so that one compiled core runs any policy set.

Numba knows the type of everything that it calls; a rule that was compiled on its own, or a callback into
Python, is only a number to the core.  ``call_rule`` turns the number into a call of
``void rule(int64 *state, int64 slot)``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def call_rule(typing: Any, address: Any, s: Any, k: Any) -> Any:
    """Call the rule at ``address`` for the state ``s`` (a row of integers) and the slot ``k``."""
    signature = types.void(types.int64, s, types.int64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        where, row, slot = values
        data = context.make_array(signature.args[1])(context, builder, row).data
        kind = ir.FunctionType(ir.VoidType(), [data.type, ir.IntType(64)])
        builder.call(builder.inttoptr(where, kind.as_pointer()), [data, slot])
        return context.get_dummy_value()

    return signature, generate
