# Written by scripts/vocabulary_stub.py from fuzzkv/contract/layout.py.
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Int = Any
Bool = Any
State = Any
_listener: list[Callable[[int, int, int, int], None]]

def get(s: State, column: int, i: Int) -> Int: ...
def put(s: State, column: int, i: Int, value: Int) -> None: ...
def put_if(s: State, g: Bool, column: int, i: Int, value: Int) -> None: ...
def add_if(s: State, g: Bool, column: int, i: Int, value: Int) -> None: ...
def ite(g: Bool, yes: Int, no: Int) -> Int: ...
def and_(*terms: Bool) -> Bool: ...
def or_(*terms: Bool) -> Bool: ...
def not_(term: Bool) -> Bool: ...
def div(a: Int, b: int) -> Int: ...
def each(n: int) -> range: ...
def guard(g: Bool) -> None: ...
def skip(g: Bool) -> None: ...
def listening(listener: Callable[[int, int, int, int], None]) -> AbstractContextManager[None]: ...
def note(s: State, g: Bool, primitive: int, actor: Int, page: Int, detail: Int) -> None: ...

NOW: int
LINK_FREE: int
LATE: int
ENFORCE: int
ACTOR: int
EVENT: int
PRIMS: int
STEP_COST: int
PAGE_COST: int
OBJECTIVE: int
TOLERANCE: int
LEDGER: int
HEADROOM: int
SHARE: int
QSHARE: int
STEPS: int
LAT_MAX: int
LAT_SUM: int
FREED: int
REMOTE: int
DEMAND: int
V_COUNT: int
V_EVENT: int
V_STAMP: int
V_PAGE: int
V_ACTOR: int
V_PRIM: int
ACTED: int
REFUSED: int
GOAL: int
R_ACTIVE: int
R_N: int
R_EPOCH: int
R_LOSS: int
R_STEPS: int
OWNED: int
DEV: int
HOST: int
EVICTED: int
PAID: int
RELEVANT: int
BUSY: int
ATT: int
LIFE: int
SEEN: int
LAST: int
GAP: int
HITS: int
QUOTE: int
D_PAGE: int
D_TAG: int
D_PREC: int
D_FILL: int
H_PAGE: int
H_TAG: int
H_PREC: int
H_FILL: int
J_KIND: int
J_PAGE: int
J_SRC: int
J_DST: int
J_END: int
J_BY: int
J_FAIL: int
J_TAG: int
J_PREC: int
J_OVER: int
FLYING: int
MARK: int
DUE: int
SPENT: int
NOTE: int
PARAM: int
MF_HORIZON: int
NR: int
PAGES: int
NP: int
ND: int
NH: int
NJ: int
NK: int
NPARAM: int
NINV: int
NPRIM: int
NCLAUSE: int
NGOAL: int
FREE: int
CLOSED: int
NOBODY: int
EXACT: int
INT8: int
INT4: int
STORE: int
LOAD: int
ABANDONED: int
SIZE: int
P_ARRIVE: int
P_FINISH: int
P_STEP: int
P_READ: int
P_TICK: int
P_RELEVANCE: int
P_BEGIN_STORE: int
P_END_STORE: int
P_BEGIN_LOAD: int
P_END_LOAD: int
P_FAIL_COPY: int
P_LATE_COPY: int
P_DROP_DEVICE: int
P_DROP_HOST: int
P_QUANTISE: int
P_PROMISE: int
P_WITHDRAW: int
P_CONDEMN: int
P_REMOTE_READ: int
P_DEMAND_LOAD: int
P_LOSE: int
C_AUTHORITY: int
C_FENCE: int
C_EVIDENCE: int
C_QUALITY_BUDGET: int
C_LINK_BUDGET: int
C_CLAIM: int
I1: int
I2: int
I3: int
I4: int
I5: int
I6: int
I7: int
I8: int
I9: int
I10: int
I11: int
I12: int
I13: int
I14: int
I15: int
I16: int
I17: int
I18: int

__all__: list[str] = ['ABANDONED', 'ACTED', 'ACTOR', 'ATT', 'BUSY', 'Bool', 'CLOSED', 'C_AUTHORITY', 'C_CLAIM', 'C_EVIDENCE', 'C_FENCE', 'C_LINK_BUDGET', 'C_QUALITY_BUDGET', 'DEMAND', 'DEV', 'DUE', 'D_FILL', 'D_PAGE', 'D_PREC', 'D_TAG', 'ENFORCE', 'EVENT', 'EVICTED', 'EXACT', 'FLYING', 'FREE', 'FREED', 'GAP', 'GOAL', 'HEADROOM', 'HITS', 'HOST', 'H_FILL', 'H_PAGE', 'H_PREC', 'H_TAG', 'I1', 'I10', 'I11', 'I12', 'I13', 'I14', 'I15', 'I16', 'I17', 'I18', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'INT4', 'INT8', 'Int', 'J_BY', 'J_DST', 'J_END', 'J_FAIL', 'J_KIND', 'J_OVER', 'J_PAGE', 'J_PREC', 'J_SRC', 'J_TAG', 'LAST', 'LATE', 'LAT_MAX', 'LAT_SUM', 'LEDGER', 'LIFE', 'LINK_FREE', 'LOAD', 'MARK', 'MF_HORIZON', 'NCLAUSE', 'ND', 'NGOAL', 'NH', 'NINV', 'NJ', 'NK', 'NOBODY', 'NOTE', 'NOW', 'NP', 'NPARAM', 'NPRIM', 'NR', 'OBJECTIVE', 'OWNED', 'PAGES', 'PAGE_COST', 'PAID', 'PARAM', 'PRIMS', 'P_ARRIVE', 'P_BEGIN_LOAD', 'P_BEGIN_STORE', 'P_CONDEMN', 'P_DEMAND_LOAD', 'P_DROP_DEVICE', 'P_DROP_HOST', 'P_END_LOAD', 'P_END_STORE', 'P_FAIL_COPY', 'P_FINISH', 'P_LATE_COPY', 'P_LOSE', 'P_PROMISE', 'P_QUANTISE', 'P_READ', 'P_RELEVANCE', 'P_REMOTE_READ', 'P_STEP', 'P_TICK', 'P_WITHDRAW', 'QSHARE', 'QUOTE', 'REFUSED', 'RELEVANT', 'REMOTE', 'R_ACTIVE', 'R_EPOCH', 'R_LOSS', 'R_N', 'R_STEPS', 'SEEN', 'SHARE', 'SIZE', 'SPENT', 'STEPS', 'STEP_COST', 'STORE', 'State', 'TOLERANCE', 'V_ACTOR', 'V_COUNT', 'V_EVENT', 'V_PAGE', 'V_PRIM', 'V_STAMP', 'add_if', 'and_', 'div', 'each', 'get', 'guard', 'ite', 'not_', 'note', 'or_', 'put', 'put_if', 'skip']
