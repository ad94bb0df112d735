"""The engine's own cache features as policies: what each changes in an engine's configuration, what it declares, what
shows that it acted.

A live policy is data.  :func:`compose` makes the configuration of an engine from a set of them; :func:`driven` the schedule
as an arm with fewer policies meets it (a pool is small only where ``vllm:preempt`` is in the set).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from fuzzkv.errors import UsageError, did_you_mean
from fuzzkv.semantics.contract.evidence import COPY_IN, COPY_OUT, Action, Evidence, Manifest
from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.schedule import ARRIVE, FORK, NEXT, LiveSchedule, blocks, size

PREFIX: Final = "vllm:"


def _exact(primitive: str, authority: Literal["device", "none"]) -> Action:
    """An action that loses nothing: the bytes are still on ``authority``, or are computed again (``none``)."""
    return Action(
        primitive=primitive,
        reversibility="exact",
        authority_copy=authority,
        recovery_p95=0,
        quality_budget=0,
    )


_DROP = _exact("drop_host", "none")
_PUBLISH = _exact("publish", "device")
_PREEMPT = _exact("preempt", "none")
_PART = _exact("step", "device")
_AHEAD = _exact("run_ahead", "device")
_LEAVE = _exact("drop_device", "none")
_ADAPT = _exact("serve_as", "device")
_DRAFT = _exact("draft", "device")
_ENCODE = Action(
    primitive="quantise",
    reversibility="irreversible",
    authority_copy="none",
    recovery_p95=0,
    quality_budget=100,
)


@dataclass(frozen=True, kw_only=True)
class LivePolicy:
    """One feature of the engine.

    ``changes`` are fields of ``EngineConfig`` that it sets, ``tier`` fields of its ``TierConfig`` (None: it needs no host
    tier).  ``drives`` names what of a schedule only it lets through ("adapters": no requests of the base model).  ``exact``
    says that its tokens are those of a plain engine; a lossy one is compared with itself alone.  ``exercised`` names page
    events or counters of a run, of which one must have happened (none: it acts in every step).
    """

    name: str
    manifest: Manifest
    changes: Mapping[str, Any] = field(default_factory=dict)
    tier: Mapping[str, Any] | None = None
    drives: Literal["", "pool", "chunk", "adapters"] = ""
    exact: bool = True
    exercised: tuple[str, ...] = ()
    version: str = "1"

    def acted(self, acts: Mapping[str, int]) -> bool:
        """Whether what a run counted proves that it did something."""
        return not self.exercised or any(acts.get(name, 0) > 0 for name in self.exercised)


def manifest_of(
    kind: str,
    target: Any,
    provenance: str,
    *actions: Action,
    source: str,
    horizon: int = 0,
    confidence: int = 500,
) -> Manifest:
    """A manifest of engine code: what its rule looks at (``provenance``), to predict what."""
    evidence = Evidence(
        target=target,
        horizon=horizon,
        confidence=confidence,
        provenance=provenance,
        calibrated_on="nothing: the engine's own rule",
    )
    return Manifest(
        kind=kind, actions=actions, evidence=evidence, source=source, fidelity="the engine itself"
    )


def _offload(name: str, rule: str, exercised: tuple[str, ...], **tier: Any) -> LivePolicy:
    source = "vLLM: OffloadingConnector, v1/kv_offload"
    manifest = manifest_of("offload", "near-reuse", rule, COPY_OUT, COPY_IN, _DROP, source=source)
    return LivePolicy(name=PREFIX + name, manifest=manifest, tier=tier, exercised=exercised)


def _dtype(name: str, kv_dtype: str) -> LivePolicy:
    manifest = manifest_of(
        "quant", "reconstruction", kv_dtype, _ENCODE, source="vLLM: kv_cache_dtype", confidence=900
    )
    return LivePolicy(name=PREFIX + name, manifest=manifest, changes={"kv_dtype": kv_dtype}, exact=False)


ALL: Final[tuple[LivePolicy, ...]] = (
    _offload("offload-lru", "recency", ("stores", "loads"), policy="lru"),
    _offload("offload-arc", "recency and frequency, ARC", ("stores", "loads"), policy="arc"),
    _offload("offload-chunk2", "recency; chunks of two blocks", ("stores", "loads"), blocks_per_chunk=2),
    _offload("store-threshold", "stored when offered twice", ("stores", "loads"), store_threshold=2),
    _offload("offload-outputs", "blocks of outputs too", ("stores", "loads"), prompt_only=False),
    _dtype("kv-fp8", "fp8"),
    _dtype("kv-fp8-e5m2", "fp8_e5m2"),
    _dtype("kv-int8-per-token-head", "int8_per_token_head"),
    LivePolicy(
        name="vllm:prefix-cache",
        manifest=manifest_of(
            "reuse", "near-reuse", "hash of the exact tokens", _PUBLISH, source="vLLM: enable_prefix_caching"
        ),
        changes={"prefix_cache": True},
        exercised=("publish", "hits"),
    ),
    LivePolicy(
        name="vllm:preempt",
        manifest=manifest_of(
            "schedule", "next-access", "order of arrival", _PREEMPT, source="vLLM: v1/core/sched, a full pool"
        ),
        drives="pool",
        exercised=("preemptions",),
    ),
    LivePolicy(
        name="vllm:chunked-prefill",
        manifest=manifest_of(
            "schedule", "next-access", "budget of a step", _PART, source="vLLM: enable_chunked_prefill"
        ),
        changes={"chunked": True},
        drives="chunk",
        exercised=("partial_prefills",),
    ),
    LivePolicy(
        name="vllm:async-scheduling",
        manifest=manifest_of(
            "schedule", "next-access", "one step ahead", _AHEAD, source="vLLM: async_scheduling", horizon=1
        ),
        changes={"async_scheduling": True},
        exercised=("run_ahead",),
    ),
    LivePolicy(
        name="vllm:sliding-window",
        manifest=manifest_of(
            "evict",
            "current-attention",
            "distance; the model's own window",
            _LEAVE,
            source="vLLM: hybrid KV groups",
            confidence=1000,
        ),
        changes={"model": "hybrid"},
        exercised=("window_frees",),
    ),
    LivePolicy(
        name="vllm:lora",
        manifest=manifest_of("renew", "answer", "adapter of the request", _ADAPT, source="vLLM: enable_lora"),
        changes={"adapters": 2},
        drives="adapters",
        exercised=("adapted",),
    ),
    LivePolicy(
        name="vllm:ngram",
        manifest=manifest_of(
            "rewind", "answer", "n-grams of the request", _DRAFT, source="vLLM: speculative n-gram", horizon=3
        ),
        changes={"draft": 3},
        exercised=("drafted",),
    ),
)
"""All of them."""

BY_NAME: Final[Mapping[str, LivePolicy]] = {policy.name: policy for policy in ALL}


def resolve(names: Sequence[str]) -> tuple[LivePolicy, ...]:
    """The live policies of these names, sorted.  FKV001 for a name that there isn't, FKV002 for none or one named twice."""
    if not names or len(set(names)) != len(names):
        raise UsageError(
            code="FKV002",
            value=f"--policies {','.join(names)!r}",
            reason="it names no policy, or one twice",
            cure=f"Name each once; there are {', '.join(sorted(BY_NAME))}.",
        )
    for name in names:
        if name not in BY_NAME:
            raise UsageError(
                code="FKV001",
                value=repr(name),
                reason="there is no live policy of this name",
                cure=did_you_mean(name, BY_NAME),
            )
    return tuple(BY_NAME[name] for name in sorted(names))


def compose(policies: Iterable[LivePolicy], base: EngineConfig | None = None) -> EngineConfig:
    """The configuration of an engine with these policies on, over ``base`` (the plain engine).

    Raises ``UsageError`` (FKV100) for two that want different values of one setting.
    """
    config = base or EngineConfig()
    tier: dict[str, Any] | None = None
    owners: dict[str, tuple[str, Any]] = {}
    changes: dict[str, Any] = {}
    for policy in policies:
        wanted = {**policy.changes, **{f"tier.{key}": value for key, value in (policy.tier or {}).items()}}
        for key, value in wanted.items():
            owner, other = owners.setdefault(key, (policy.name, value))
            if other != value:
                raise UsageError(
                    code="FKV100",
                    value=f"{owner} + {policy.name}",
                    reason=f"one sets {key} to {other!r}, the other to {value!r}",
                    cure="Leave one of them out.",
                )
        changes |= policy.changes
        if policy.tier is not None:
            tier = {**(tier or {}), **policy.tier}
    if tier is not None:
        changes["tier"] = replace(config.tier or TierConfig(), **tier)
    return replace(config, **changes)


def compatible(policies: Sequence[LivePolicy]) -> bool:
    """Whether :func:`compose` takes them together."""
    try:
        compose(policies)
    except UsageError:
        return False
    return True


def driven(policies: Sequence[LivePolicy], schedule: LiveSchedule, config: EngineConfig) -> LiveSchedule:
    """The schedule as these policies meet it: unless one of them drives that, the pool is never so small that a request
    has to give way (frames are reused all the same), and a step takes the longest prompt whole.  With adapters every request
    has one: on the builds that were tried, the engine computes requests of the base model beside them with one of theirs.
    """
    drives = {policy.drives for policy in policies}
    pool, whole = schedule.pool, max(config.step_tokens, config.context)
    if "pool" not in drives:
        pool = max(pool, demand(schedule, config.requests))
    if "adapters" in drives:
        events = tuple((op, a, max(1, b) if op == NEXT else b, c) for op, a, b, c in schedule.events)
        schedule = replace(schedule, events=events, adapter=1)
    return replace(
        schedule, pool=min(pool, config.pages), chunk=schedule.chunk if "chunk" in drives else whole
    )


def demand(schedule: LiveSchedule, requests: int) -> int:
    """Device blocks with which the ``requests`` largest requests of a schedule run side by side (an upper bound)."""
    sizes: list[int] = []
    for op, _, code, output in schedule.events:
        if op in (ARRIVE, FORK):
            longest = max(sizes, default=0) if op == FORK else 0
            sizes.append(longest + size(code) + output)
    return sum(blocks(tokens) + 1 for tokens in sorted(sizes)[-requests:])
