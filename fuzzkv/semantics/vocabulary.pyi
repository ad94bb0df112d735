# Written by scripts/vocabulary_stub.py from fuzzkv/semantics/layout.py.
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload

class _Number:
    """A number of some thing: it can be compared and computed with like an int."""
    def __add__(self, other: Any, /) -> int: ...
    def __radd__(self, other: Any, /) -> int: ...
    def __sub__(self, other: Any, /) -> int: ...
    def __rsub__(self, other: Any, /) -> int: ...
    def __mul__(self, other: Any, /) -> int: ...
    def __rmul__(self, other: Any, /) -> int: ...
    def __lt__(self, other: Any, /) -> bool: ...
    def __le__(self, other: Any, /) -> bool: ...
    def __gt__(self, other: Any, /) -> bool: ...
    def __ge__(self, other: Any, /) -> bool: ...
    def __int__(self) -> int: ...

class _Truth:
    """What a combination of conditions gives: no number."""

class State(Protocol):
    """A run of integers, or what stands for one."""
    def __getitem__(self, place: Any, /) -> Any: ...

Int: TypeAlias = int
Bool: TypeAlias = _Truth | bool
AnyNumber: TypeAlias = _Number | int
class _ClauseId(_Number): ...
class _CopyId(_Number): ...
class _DeviceFrame(_Number): ...
class _EntryId(_Number): ...
class _GoalId(_Number): ...
class _HostFrame(_Number): ...
class _InvariantId(_Number): ...
class _PageId(_Number): ...
class _PolicyId(_Number): ...
class _PrimitiveId(_Number): ...
class _QueueId(_Number): ...
class _SessionId(_Number): ...
ClauseId: TypeAlias = _ClauseId | int
CopyId: TypeAlias = _CopyId | int
DeviceFrame: TypeAlias = _DeviceFrame | int
EntryId: TypeAlias = _EntryId | int
GoalId: TypeAlias = _GoalId | int
HostFrame: TypeAlias = _HostFrame | int
InvariantId: TypeAlias = _InvariantId | int
PageId: TypeAlias = _PageId | int
PolicyId: TypeAlias = _PolicyId | int
PrimitiveId: TypeAlias = _PrimitiveId | int
QueueId: TypeAlias = _QueueId | int
SessionId: TypeAlias = _SessionId | int
AnyId = TypeVar("AnyId", bound=AnyNumber)
_I = TypeVar("_I")
_V = TypeVar("_V")
_N = TypeVar("_N", bound=_Number)

class _Column(Generic[_I, _V]):
    """A column: the numbers that it is read with, and what it holds."""

PageColumn: TypeAlias = _Column[PageId, Any]

class _Count(_Number, Generic[_I]):
    """How many there are of some thing."""

_listener: list[Callable[[int, int, int, int], None]]

def get(s: State, column: _Column[_I, _V], i: _I) -> _V: ...
def put(s: State, column: _Column[_I, _V], i: _I, value: _V) -> None: ...
def put_if(s: State, g: Bool, column: _Column[_I, _V], i: _I, value: _V) -> None: ...
def add_if(s: State, g: Bool, column: _Column[_I, _V], i: _I, value: _V) -> None: ...
@overload
def ite(g: Bool, yes: Bool, no: Bool) -> Bool: ...  # type: ignore[overload-overlap]
@overload
def ite(g: Bool, yes: int, no: int) -> int: ...
@overload
def ite(g: Bool, yes: _N | int, no: _N | int) -> _N | int: ...
def and_(*terms: Bool) -> Bool: ...
def or_(*terms: Bool) -> Bool: ...
def not_(term: Bool) -> Bool: ...
def div(a: AnyNumber, b: AnyNumber) -> Int: ...
@overload
def each(n: _Count[_I]) -> Iterable[_I]: ...
@overload
def each(n: int) -> range: ...
def guard(g: Bool) -> None: ...
def skip(g: Bool) -> None: ...
def listening(listener: Callable[[int, int, int, int], None]) -> AbstractContextManager[None]: ...
def note(s: State, g: Bool, primitive: PrimitiveId, actor: PolicyId, page: PageId, detail: AnyNumber) -> None: ...

NOW: _Column[int, int]
LINK_FREE: _Column[int, int]
LATE: _Column[int, int]
ENFORCE: _Column[ClauseId, int]
ACTOR: _Column[int, int]
EVENT: _Column[int, int]
PRIMS: _Column[int, int]
STEP_COST: _Column[int, int]
PAGE_COST: _Column[int, int]
OBJECTIVE: _Column[int, int]
TOLERANCE: _Column[int, int]
LEDGER: _Column[int, int]
HEADROOM: _Column[int, int]
SHARE: _Column[int, int]
QSHARE: _Column[int, int]
STEPS: _Column[int, int]
LAT_MAX: _Column[int, int]
LAT_SUM: _Column[int, int]
FREED: _Column[int, int]
REMOTE: _Column[int, int]
DEMAND: _Column[int, int]
V_COUNT: _Column[InvariantId, int]
V_EVENT: _Column[InvariantId, int]
V_STAMP: _Column[InvariantId, int]
V_PAGE: _Column[InvariantId, PageId]
V_ACTOR: _Column[InvariantId, PolicyId]
V_PRIM: _Column[InvariantId, PrimitiveId]
ACTED: _Column[int, int]
REFUSED: _Column[ClauseId, int]
GOAL: _Column[GoalId, int]
R_ACTIVE: _Column[SessionId, int]
R_N: _Column[SessionId, int]
R_EPOCH: _Column[SessionId, int]
R_LOSS: _Column[SessionId, int]
R_STEPS: _Column[SessionId, int]
OWNED: _Column[PageId, int]
DEV: _Column[PageId, DeviceFrame]
HOST: _Column[PageId, HostFrame]
EVICTED: _Column[PageId, int]
PAID: _Column[PageId, int]
RELEVANT: _Column[PageId, int]
BUSY: _Column[PageId, int]
ATT: _Column[PageId, int]
LIFE: _Column[PageId, int]
SEEN: _Column[PageId, int]
LAST: _Column[PageId, int]
GAP: _Column[PageId, int]
HITS: _Column[PageId, int]
QUOTE: _Column[int, int]
D_PAGE: _Column[DeviceFrame, PageId]
D_TAG: _Column[DeviceFrame, int]
D_PREC: _Column[DeviceFrame, int]
D_FILL: _Column[DeviceFrame, int]
H_PAGE: _Column[HostFrame, PageId]
H_TAG: _Column[HostFrame, int]
H_PREC: _Column[HostFrame, int]
H_FILL: _Column[HostFrame, int]
J_KIND: _Column[CopyId, int]
J_PAGE: _Column[CopyId, PageId]
J_SRC: _Column[CopyId, Any]
J_DST: _Column[CopyId, Any]
J_END: _Column[CopyId, int]
J_BY: _Column[CopyId, PolicyId]
J_FAIL: _Column[CopyId, int]
J_TAG: _Column[CopyId, int]
J_PREC: _Column[CopyId, int]
J_OVER: _Column[CopyId, int]
FLYING: _Column[PolicyId, int]
MARK: _Column[int, int]
DUE: _Column[int, int]
SPENT: _Column[int, int]
NOTE: _Column[PolicyId, int]
PARAM: _Column[int, int]
MF_HORIZON: _Column[PolicyId, int]
WANT: _Column[PageId, int]
WEIGHTS: _Column[int, int]
LAYOUT: _Column[int, int]
R_TEXT: _Column[SessionId, int]
R_NEXT: _Column[SessionId, int]
R_TODO: _Column[SessionId, int]
DEFER: _Column[int, int]
TOUCHED: _Column[PageId, int]
D_REF: _Column[DeviceFrame, int]
D_DMA: _Column[DeviceFrame, int]
H_PIN: _Column[HostFrame, int]
R_ADAPTER: _Column[SessionId, int]
R_SCHEME: _Column[SessionId, int]
P_BRANCH: _Column[PageId, int]
P_LINEAGE: _Column[PageId, int]
TODO: _Column[PageId, int]
R_RES: _Column[SessionId, int]
R_DRAFT: _Column[SessionId, int]
R_OPENED: _Column[SessionId, int]
R_ASKED: _Column[SessionId, int]
RUN_ON: _Column[SessionId, int]
HOLD: _Column[SessionId, int]
GROUP: _Column[SessionId, int]
G_AT: _Column[SessionId, int]
R_BOUND: _Column[SessionId, int]
CKPT: _Column[PageId, int]
RING: _Column[SessionId, int]
RING_IDX: _Column[SessionId, int]
RING_OFF: _Column[SessionId, int]
D_SIDE: _Column[DeviceFrame, int]
D_PAY: _Column[DeviceFrame, int]
D_CODED: _Column[DeviceFrame, int]
D_QUEUE: _Column[DeviceFrame, int]
Q_LEN: _Column[QueueId, int]
X_KEY: _Column[EntryId, int]
X_TIER: _Column[EntryId, int]
X_FRAME: _Column[EntryId, DeviceFrame]
X_TAG: _Column[EntryId, int]
X_FULL: _Column[EntryId, int]
X_BY: _Column[EntryId, PolicyId]
CERT: _Column[PageId, int]
CERT_AT: _Column[PageId, int]
CERT_FOR: _Column[PageId, int]
W_ASKED: _Column[int, int]
S_ASKED: _Column[int, int]
F_ASKED: _Column[int, int]
IDLE: _Column[int, int]
LEASE: _Column[CopyId, int]
NR: _Count[SessionId]
PAGES: int
NP: _Count[PageId]
ND: _Count[DeviceFrame]
NH: _Count[HostFrame]
NJ: _Count[CopyId]
NK: _Count[PolicyId]
NPARAM: int
NINV: _Count[InvariantId]
NX: _Count[EntryId]
NQ: _Count[QueueId]
NPRIM: _Count[PrimitiveId]
NCLAUSE: _Count[ClauseId]
NGOAL: _Count[GoalId]
FREE: int
CLOSED: int
PENDING: int
CACHED: int
TAKEN: int
ORPHAN: int
NOBODY: int
EXACT: int
INT8: int
INT4: int
STORE: int
LOAD: int
ABANDONED: int
RUN: int
RECEIVE: int
SPILL: int
FETCH: int
ON_DEVICE: int
ON_STORE: int
TOKENS: int
WINDOW: int
GARBLED: int
SKEWED: int
CURRENT_ATTENTION: int
NEXT_ACCESS: int
NEAR_REUSE: int
RECONSTRUCTION: int
ATTENTION_OUTPUT: int
ANSWER: int
RESIDE: int
DEGRADE: int
DELETE: int
KEY_TEXT: int
KEY_BRANCH: int
KEY_ADAPTER: int
KEY_SCHEME: int
KEY_WEIGHTS: int
KEY_LINEAGE: int
KEY_LAYOUT: int
KEY_ALL: int
DEVICE_PART: int
HOST_PART: int
INDEX_PART: int
STATE_PART: int
ALL_PARTS: int
PAYLOAD: int
SCALES: int
ENTRY: int
SIZE: int
P_ARRIVE: _PrimitiveId
P_FINISH: _PrimitiveId
P_STEP: _PrimitiveId
P_READ: _PrimitiveId
P_TICK: _PrimitiveId
P_RELEVANCE: _PrimitiveId
P_BEGIN_STORE: _PrimitiveId
P_END_STORE: _PrimitiveId
P_BEGIN_LOAD: _PrimitiveId
P_END_LOAD: _PrimitiveId
P_FAIL_COPY: _PrimitiveId
P_LATE_COPY: _PrimitiveId
P_DROP_DEVICE: _PrimitiveId
P_DROP_HOST: _PrimitiveId
P_QUANTISE: _PrimitiveId
P_PROMISE: _PrimitiveId
P_WITHDRAW: _PrimitiveId
P_CONDEMN: _PrimitiveId
P_REMOTE_READ: _PrimitiveId
P_DEMAND_LOAD: _PrimitiveId
P_LOSE: _PrimitiveId
P_QUEUE: _PrimitiveId
P_PREFILL: _PrimitiveId
P_GROW: _PrimitiveId
P_ADMIT: _PrimitiveId
P_PREEMPT: _PrimitiveId
P_END_ROUND: _PrimitiveId
P_DEFER_FREES: _PrimitiveId
P_ASK_FRAMES: _PrimitiveId
P_PRESSURE: _PrimitiveId
P_PAUSE: _PrimitiveId
P_PUBLISH: _PrimitiveId
P_UNPUBLISH: _PrimitiveId
P_HIT: _PrimitiveId
P_EXPIRE: _PrimitiveId
P_REPORT: _PrimitiveId
P_HOLD: _PrimitiveId
P_SERVE_AS: _PrimitiveId
P_DRAFT: _PrimitiveId
P_VERIFY: _PrimitiveId
P_REWIND: _PrimitiveId
P_FORK: _PrimitiveId
P_TRIM: _PrimitiveId
P_MAKE_RING: _PrimitiveId
P_RING_APPEND: _PrimitiveId
P_SPLIT_GROUPS: _PrimitiveId
P_CHECKPOINT: _PrimitiveId
P_RESUME: _PrimitiveId
P_RELAYOUT: _PrimitiveId
P_WRITE_SCALE: _PrimitiveId
P_ENCODE: _PrimitiveId
P_FORGET_SCALE: _PrimitiveId
P_RUN_AHEAD: _PrimitiveId
P_RECEIVE: _PrimitiveId
P_SPILL: _PrimitiveId
P_END_COPY: _PrimitiveId
P_TRUST: _PrimitiveId
P_PIN: _PrimitiveId
P_UNPIN: _PrimitiveId
P_ENQUEUE: _PrimitiveId
P_DEQUEUE: _PrimitiveId
P_LOAD_WEIGHTS: _PrimitiveId
P_DOZE: _PrimitiveId
P_CERTIFY: _PrimitiveId
P_SPEND: _PrimitiveId
C_AUTHORITY: _ClauseId
C_FENCE: _ClauseId
C_EVIDENCE: _ClauseId
C_QUALITY_BUDGET: _ClauseId
C_LINK_BUDGET: _ClauseId
C_CLAIM: _ClauseId
C_LAYOUT: _ClauseId
C_VERSION: _ClauseId
C_INDEX: _ClauseId
C_BOUNDARY: _ClauseId
C_ACCOUNTING: _ClauseId
C_PROGRESS: _ClauseId
C_FAIL_CLOSED: _ClauseId
GOAL_HOST_OFFER: _GoalId
GOAL_LINK_BUSY: _GoalId
GOAL_QUANTISED_QUOTED: _GoalId
GOAL_CONDEMNED_AWAY: _GoalId
GOAL_DROPPED_QUOTED: _GoalId
GOAL_COPIES_OF_TWO: _GoalId
GOAL_LOSSES_OF_TWO: _GoalId
GOAL_HOST_FULL: _GoalId
GOAL_PAGE_OF_TWO: _GoalId
I1: _InvariantId
I2: _InvariantId
I3: _InvariantId
I4: _InvariantId
I5: _InvariantId
I6: _InvariantId
I7: _InvariantId
I8: _InvariantId
I9: _InvariantId
I10: _InvariantId
I11: _InvariantId
I12: _InvariantId
I13: _InvariantId
I14: _InvariantId
I15: _InvariantId
I16: _InvariantId
I17: _InvariantId
I18: _InvariantId

__all__: list[str] = ['ABANDONED', 'ACTED', 'ACTOR', 'ALL_PARTS', 'ANSWER', 'ATT', 'ATTENTION_OUTPUT', 'AnyId', 'AnyNumber', 'BUSY', 'Bool', 'CACHED', 'CERT', 'CERT_AT', 'CERT_FOR', 'CKPT', 'CLOSED', 'CURRENT_ATTENTION', 'C_ACCOUNTING', 'C_AUTHORITY', 'C_BOUNDARY', 'C_CLAIM', 'C_EVIDENCE', 'C_FAIL_CLOSED', 'C_FENCE', 'C_INDEX', 'C_LAYOUT', 'C_LINK_BUDGET', 'C_PROGRESS', 'C_QUALITY_BUDGET', 'C_VERSION', 'ClauseId', 'CopyId', 'DEFER', 'DEGRADE', 'DELETE', 'DEMAND', 'DEV', 'DEVICE_PART', 'DUE', 'D_CODED', 'D_DMA', 'D_FILL', 'D_PAGE', 'D_PAY', 'D_PREC', 'D_QUEUE', 'D_REF', 'D_SIDE', 'D_TAG', 'DeviceFrame', 'ENFORCE', 'ENTRY', 'EVENT', 'EVICTED', 'EXACT', 'EntryId', 'FETCH', 'FLYING', 'FREE', 'FREED', 'F_ASKED', 'GAP', 'GARBLED', 'GOAL', 'GOAL_CONDEMNED_AWAY', 'GOAL_COPIES_OF_TWO', 'GOAL_DROPPED_QUOTED', 'GOAL_HOST_FULL', 'GOAL_HOST_OFFER', 'GOAL_LINK_BUSY', 'GOAL_LOSSES_OF_TWO', 'GOAL_PAGE_OF_TWO', 'GOAL_QUANTISED_QUOTED', 'GROUP', 'G_AT', 'GoalId', 'HEADROOM', 'HITS', 'HOLD', 'HOST', 'HOST_PART', 'H_FILL', 'H_PAGE', 'H_PIN', 'H_PREC', 'H_TAG', 'HostFrame', 'I1', 'I10', 'I11', 'I12', 'I13', 'I14', 'I15', 'I16', 'I17', 'I18', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'IDLE', 'INDEX_PART', 'INT4', 'INT8', 'Int', 'InvariantId', 'J_BY', 'J_DST', 'J_END', 'J_FAIL', 'J_KIND', 'J_OVER', 'J_PAGE', 'J_PREC', 'J_SRC', 'J_TAG', 'KEY_ADAPTER', 'KEY_ALL', 'KEY_BRANCH', 'KEY_LAYOUT', 'KEY_LINEAGE', 'KEY_SCHEME', 'KEY_TEXT', 'KEY_WEIGHTS', 'LAST', 'LATE', 'LAT_MAX', 'LAT_SUM', 'LAYOUT', 'LEASE', 'LEDGER', 'LIFE', 'LINK_FREE', 'LOAD', 'MARK', 'MF_HORIZON', 'NCLAUSE', 'ND', 'NEAR_REUSE', 'NEXT_ACCESS', 'NGOAL', 'NH', 'NINV', 'NJ', 'NK', 'NOBODY', 'NOTE', 'NOW', 'NP', 'NPARAM', 'NPRIM', 'NQ', 'NR', 'NX', 'OBJECTIVE', 'ON_DEVICE', 'ON_STORE', 'ORPHAN', 'OWNED', 'PAGES', 'PAGE_COST', 'PAID', 'PARAM', 'PAYLOAD', 'PENDING', 'PRIMS', 'P_ADMIT', 'P_ARRIVE', 'P_ASK_FRAMES', 'P_BEGIN_LOAD', 'P_BEGIN_STORE', 'P_BRANCH', 'P_CERTIFY', 'P_CHECKPOINT', 'P_CONDEMN', 'P_DEFER_FREES', 'P_DEMAND_LOAD', 'P_DEQUEUE', 'P_DOZE', 'P_DRAFT', 'P_DROP_DEVICE', 'P_DROP_HOST', 'P_ENCODE', 'P_END_COPY', 'P_END_LOAD', 'P_END_ROUND', 'P_END_STORE', 'P_ENQUEUE', 'P_EXPIRE', 'P_FAIL_COPY', 'P_FINISH', 'P_FORGET_SCALE', 'P_FORK', 'P_GROW', 'P_HIT', 'P_HOLD', 'P_LATE_COPY', 'P_LINEAGE', 'P_LOAD_WEIGHTS', 'P_LOSE', 'P_MAKE_RING', 'P_PAUSE', 'P_PIN', 'P_PREEMPT', 'P_PREFILL', 'P_PRESSURE', 'P_PROMISE', 'P_PUBLISH', 'P_QUANTISE', 'P_QUEUE', 'P_READ', 'P_RECEIVE', 'P_RELAYOUT', 'P_RELEVANCE', 'P_REMOTE_READ', 'P_REPORT', 'P_RESUME', 'P_REWIND', 'P_RING_APPEND', 'P_RUN_AHEAD', 'P_SERVE_AS', 'P_SPEND', 'P_SPILL', 'P_SPLIT_GROUPS', 'P_STEP', 'P_TICK', 'P_TRIM', 'P_TRUST', 'P_UNPIN', 'P_UNPUBLISH', 'P_VERIFY', 'P_WITHDRAW', 'P_WRITE_SCALE', 'PageColumn', 'PageId', 'PolicyId', 'PrimitiveId', 'QSHARE', 'QUOTE', 'Q_LEN', 'QueueId', 'RECEIVE', 'RECONSTRUCTION', 'REFUSED', 'RELEVANT', 'REMOTE', 'RESIDE', 'RING', 'RING_IDX', 'RING_OFF', 'RUN', 'RUN_ON', 'R_ACTIVE', 'R_ADAPTER', 'R_ASKED', 'R_BOUND', 'R_DRAFT', 'R_EPOCH', 'R_LOSS', 'R_N', 'R_NEXT', 'R_OPENED', 'R_RES', 'R_SCHEME', 'R_STEPS', 'R_TEXT', 'R_TODO', 'SCALES', 'SEEN', 'SHARE', 'SIZE', 'SKEWED', 'SPENT', 'SPILL', 'STATE_PART', 'STEPS', 'STEP_COST', 'STORE', 'S_ASKED', 'SessionId', 'State', 'TAKEN', 'TODO', 'TOKENS', 'TOLERANCE', 'TOUCHED', 'V_ACTOR', 'V_COUNT', 'V_EVENT', 'V_PAGE', 'V_PRIM', 'V_STAMP', 'WANT', 'WEIGHTS', 'WINDOW', 'W_ASKED', 'X_BY', 'X_FRAME', 'X_FULL', 'X_KEY', 'X_TAG', 'X_TIER', 'add_if', 'and_', 'div', 'each', 'get', 'guard', 'ite', 'not_', 'note', 'or_', 'put', 'put_if', 'skip']
