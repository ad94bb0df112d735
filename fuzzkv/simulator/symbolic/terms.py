"""The algebra of integers over Z3's terms: for proofs, where numbers have no bound."""

from __future__ import annotations

from typing import Any

import z3

_MOST = 200_000


class Terms:
    """Integers as Z3 terms; what is known stays an int or a bool.  ``always`` are terms that hold in every solution."""

    def __init__(self) -> None:
        self.always: list[Any] = []
        self._simple: dict[int, tuple[Any, Any]] = {}

    def is_term(self, value: Any) -> bool:
        """Whether a value isn't known."""
        return isinstance(value, z3.ExprRef)

    def known(self, value: Any) -> Any:
        """The value as an int or bool if it is a constant, else as a simplified term."""
        if not isinstance(value, z3.ExprRef):
            return value
        # The term is kept beside its result, so that its id stays its own.
        seen = self._simple.get(value.get_id())
        if seen is not None:
            return seen[1]
        if len(self._simple) >= _MOST:
            self._simple.clear()
        term = z3.simplify(value)
        result: Any = term
        if z3.is_int_value(term):
            result = term.as_long()
        elif z3.is_true(term) or z3.is_false(term):
            result = z3.is_true(term)
        else:
            self._simple[term.get_id()] = (term, term)
        self._simple[value.get_id()] = (value, result)
        return result

    def unknown(self, low: int, high: int, name: str | None = None) -> Any:
        """A number that isn't known yet, from ``low`` to ``high``."""
        term = z3.FreshInt("x") if name is None else z3.Int(name)
        self.always += [term >= low, term <= high]
        return term

    def ite(self, g: Any, yes: Any, no: Any) -> Any:
        """``yes`` if ``g`` holds, else ``no``."""
        g = self.known(g)
        if not self.is_term(g):
            return yes if g else no
        yes, no = self.known(yes), self.known(no)
        if self._same(yes, no):
            return yes
        if isinstance(yes, bool) or isinstance(no, bool) or z3.is_bool(yes):
            return self.known(z3.If(g, boolean(yes), boolean(no)))
        return self.known(z3.If(g, yes, no))

    def and_(self, *terms: Any) -> Any:
        """Whether all hold."""
        kept = []
        for term in map(self.known, terms):
            if self.is_term(term):
                kept.append(term)
            elif not term:
                return False
        return self.known(z3.And(kept)) if len(kept) > 1 else kept[0] if kept else True

    def or_(self, *terms: Any) -> Any:
        """Whether one holds."""
        kept = []
        for term in map(self.known, terms):
            if self.is_term(term):
                kept.append(term)
            elif term:
                return True
        return self.known(z3.Or(kept)) if len(kept) > 1 else kept[0] if kept else False

    def not_(self, term: Any) -> Any:
        """Whether it doesn't hold."""
        term = self.known(term)
        return z3.Not(term) if self.is_term(term) else not term

    def div(self, a: Any, b: int) -> Any:
        """The whole part of ``a / b``; for an ``a`` that isn't negative Z3's division is Python's."""
        a = self.known(a)
        return a / b if self.is_term(a) else a // b

    def _same(self, one: Any, other: Any) -> bool:
        if self.is_term(one) or self.is_term(other):
            return self.is_term(one) and self.is_term(other) and bool(one.eq(other))
        return bool(one == other)


def boolean(value: Any) -> Any:
    """A truth as a term."""
    return value if isinstance(value, z3.ExprRef) else z3.BoolVal(bool(value))


def solve(assumed: list[Any], goal: Any) -> dict[str, int] | None:
    """Numbers for what isn't known that reach a goal, by name; ``None`` if there are none."""
    solver = z3.Solver()
    solver.add(*assumed, boolean(goal))
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    return {str(name): model[name].as_long() for name in model.decls()}
