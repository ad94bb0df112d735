"""The rules that vLLM states for code that plugs into its cache, as data.

A rule says who has to keep it, what it asks in our own words, where the engine says so (module, symbol and a few
words that stand there, so that a test notices when a release moves or drops them) and which invariant a breach
belongs to.  A rule without such words is nowhere stated: the engine relies on it all the same, in the symbol given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Keeper = Literal["CachePolicy", "OffloadingManager", "OffloadingWorker", "KVConnector", "engine"]

ENGINE: Final = "0.32.0"
"""The vLLM release whose text was read."""

_OFFLOAD: Final = "v1/kv_offload/base.py"
_POLICY: Final = "v1/kv_offload/cpu/policies/base.py"
_MANAGER: Final = "v1/kv_offload/cpu/manager.py"
_CONNECTOR: Final = "distributed/kv_transfer/kv_connector/v1/base.py"
_SCHEDULER: Final = "distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py"
_WORKER: Final = "distributed/kv_transfer/kv_connector/v1/offloading/worker.py"
_COMMON: Final = "distributed/kv_transfer/kv_connector/v1/offloading/common.py"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.  ``module`` is a file under ``vllm/``, ``symbol`` the class or method there, or empty for the whole
    file; ``words`` a few of its own words, empty where the rule is only relied on.
    """

    id: str
    keeper: Keeper
    text: str
    module: str
    symbol: str
    words: str
    invariant: str

    @property
    def said(self) -> bool:
        """Whether the engine states the rule, rather than only relying on it."""
        return bool(self.words)


def _policy(name: str, text: str, symbol: str, words: str, invariant: str, module: str = _POLICY) -> Rule:
    return Rule(f"policy-{name}", "CachePolicy", text, module, symbol, words, invariant)


def _manager(name: str, text: str, symbol: str, words: str, invariant: str, module: str = _OFFLOAD) -> Rule:
    return Rule(f"manager-{name}", "OffloadingManager", text, module, symbol, words, invariant)


def _worker(name: str, text: str, module: str, symbol: str, words: str, invariant: str) -> Rule:
    return Rule(f"worker-{name}", "OffloadingWorker", text, module, symbol, words, invariant)


def _connector(name: str, text: str, symbol: str, words: str, invariant: str) -> Rule:
    return Rule(
        f"connector-{name}", "KVConnector", text, _CONNECTOR, f"KVConnectorBase_V1.{symbol}", words, invariant
    )


def _engine(name: str, text: str, module: str, symbol: str, words: str, invariant: str) -> Rule:
    return Rule(f"engine-{name}", "engine", text, module, symbol, words, invariant)


_RULES: Final = (
    _policy(
        "get",
        "what was inserted is found, the very object, until it is removed, evicted or cleared",
        "CachePolicy.get",
        "Returns None if not present",
        "I8",
    ),
    _policy(
        "evict-exact",
        "evict takes out exactly as many chunks as were asked for",
        "CachePolicy.evict",
        "Evict exactly n chunks",
        "I11",
    ),
    _policy(
        "evict-protected",
        "evict leaves the protected chunks alone",
        "CachePolicy.evict",
        "skipping any in protected",
        "I12",
    ),
    _policy(
        "evict-idle",
        "evict never takes a chunk that a transfer reads or that isn't filled yet",
        "CPUOffloadingManager.prepare_store",
        "cache-policy removes only idle chunks",
        "I1",
        _MANAGER,
    ),
    _policy(
        "evict-truth",
        "evict names chunks that were there, each once and with its own place, and then they are gone",
        "CachePolicy.evict",
        "(key, chunk) for the evicted chunks",
        "I8",
    ),
    _policy(
        "evict-none",
        "an evict that answers None has changed nothing, the order of later evictions included",
        "CachePolicy.evict",
        "no state changes are made",
        "I8",
    ),
    _policy(
        "evict-able",
        "evict answers None only if fewer than that many chunks may go",
        "CachePolicy.evict",
        "None if n evictions cannot be satisfied",
        "I13",
    ),
    _policy(
        "remove",
        "a removed chunk, whose store failed, is gone and every other one is still there",
        "CachePolicy.remove",
        "clean up after a failed store",
        "I16",
    ),
    _policy(
        "keep",
        "touches, misses, marks and the ends of requests change no membership",
        "CachePolicy.touch",
        "Mark chunks as recently used",
        "I8",
    ),
    _policy(
        "owner",
        "a chunk's count of readers and its place are the manager's: a policy never writes them",
        "CPUOffloadingManager",
        "The manager owns all shared logic",
        "I11",
        _MANAGER,
    ),
    _policy(
        "clear",
        "clear takes out every chunk, whoever reads it",
        "CachePolicy.clear",
        "Remove ALL chunks regardless of ref_cnt",
        "I8",
    ),
    _policy(
        "clear-forgets",
        "after clear the policy decides as a new one does",
        "CachePolicy.clear",
        "adaptive state are also reset",
        "I9",
    ),
    _policy("returns", "a call that the engine makes in a legal order returns", "CachePolicy", "", "I13"),
    _manager(
        "hit-ready",
        "a lookup is a hit only for a block whose store has been completed and that is still there",
        "OffloadingManager.lookup",
        "HIT if the block is offloaded and ready",
        "I3",
    ),
    _manager(
        "pending",
        "a lookup says pending only while a store of that block is under way",
        "OffloadingManager.lookup",
        "HIT_PENDING if found but not yet readable",
        "I13",
    ),
    _manager(
        "told",
        "a stored block stays until the manager has told that it was evicted",
        "OffloadingManager.prepare_store",
        "list of blocks that were evicted as a result",
        "I8",
    ),
    _manager(
        "load-pin",
        "blocks prepared to be loaded aren't evicted before complete_load",
        "OffloadingManager.prepare_load",
        "protected from eviction until complete_load is called",
        "I1",
    ),
    _manager(
        "store-pin",
        "blocks prepared to be stored aren't evicted before complete_store",
        "OffloadingManager.prepare_store",
        "protected from eviction until complete_store is called",
        "I2",
    ),
    _manager(
        "load-places",
        "a load reads every block from the place where it was stored, in the order asked for",
        "OffloadingManager.prepare_load",
        "locate and load the actual offloaded KV data",
        "I4",
    ),
    _manager(
        "store-offered",
        "blocks to store are among those offered, each once",
        "OffloadingManager.prepare_store",
        "indicating which blocks need storing",
        "I7",
    ),
    _manager(
        "store-once",
        "a block that is there, or on its way, isn't stored a second time",
        "OffloadPolicy",
        "already offloaded by a prior request",
        "I2",
    ),
    _manager(
        "store-order",
        "blocks to store come in the order in which they were offered: sources and places are paired by it",
        "OffloadingConnectorScheduler._build_store_jobs",
        "",
        "I4",
        _SCHEDULER,
    ),
    _manager(
        "store-places",
        "each block to store gets one place, which no other block holds",
        "OffloadingManager.prepare_store",
        "where to store them",
        "I2",
    ),
    _manager(
        "evicted",
        "blocks told as evicted were there, and none of them was offered in the same call",
        "CPUOffloadingManager.prepare_store",
        "must remain in the cache after this call",
        "I8",
        _MANAGER,
    ),
    _manager(
        "stored",
        "after a completed store the blocks can be loaded",
        "OffloadingManager.complete_store",
        "Following this call, the blocks become loadable",
        "I15",
    ),
    _manager(
        "failed",
        "a failed store leaves nothing behind",
        "OffloadingManager.complete_store",
        "blocks that were not marked as stored will be removed",
        "I16",
    ),
    _manager(
        "room",
        "once no transfer is under way, all of the room can be had again",
        "",
        "This is to re-allow their eviction",
        "I11",
    ),
    _manager(
        "events",
        "events tell each completed store and each eviction once, and nothing else",
        "OffloadingManager.take_events",
        "New OffloadingEvents collected since the last call",
        "I8",
    ),
    _manager(
        "touch",
        "a touch changes no membership",
        "OffloadingManager.touch",
        "Mark the given blocks as recently used",
        "I8",
    ),
    _manager(
        "reset",
        "after a reset nothing is found",
        "OffloadingManager.reset_cache",
        "Evict all tracked blocks",
        "I8",
    ),
    _manager(
        "reset-forgets",
        "after a reset the manager answers as a new one does",
        "OffloadingManager.reset_cache",
        "reset internal state",
        "I9",
    ),
    _manager(
        "late",
        "transfers of a finished request may still be completed",
        "OffloadingManager.on_request_finished",
        "may still arrive afterward",
        "I13",
    ),
    _manager(
        "idle",
        "a manager without work says so in the end, or the engine never rests",
        "OffloadingManager.has_pending_work",
        "needs the engine to keep stepping",
        "I13",
    ),
    _manager(
        "answer",
        "a lookup that has to be tried again gets an answer in the end",
        "OffloadingManager.lookup",
        "lookup should be retried later",
        "I13",
    ),
    _manager(
        "shape",
        "answers are of the declared kinds",
        "OffloadingManager",
        "HIT if the block is offloaded",
        "I5",
    ),
    _manager(
        "returns", "a call that the engine makes in a legal order returns", "OffloadingManager", "", "I13"
    ),
    _worker(
        "accepts",
        "a submitted transfer is accepted",
        _WORKER,
        "OffloadingConnectorWorker.start_kv_transfers",
        "",
        "I13",
    ),
    _worker(
        "known",
        "results name submitted transfers, each once",
        _COMMON,
        "OffloadingWorkerMetadata",
        "newly completed transfer jobs",
        "I11",
    ),
    _worker(
        "wait",
        "after a wait the named transfers are done and are reported next",
        _CONNECTOR,
        "KVConnectorBase_V1.handle_preemptions",
        "BEFORE they are overwritten",
        "I2",
    ),
    _worker(
        "success",
        "no transfer is reported as failed: this release stops the engine at it",
        _WORKER,
        "OffloadingConnectorWorker.get_finished",
        "we currently do not support job failures",
        "I16",
    ),
    _worker(
        "bytes",
        "a load brings the bytes that were stored at that place",
        _OFFLOAD,
        "OffloadingManager.prepare_load",
        "locate and load the actual offloaded KV data",
        "I4",
    ),
    _worker(
        "neighbours",
        "a transfer writes no device block but those it names",
        _OFFLOAD,
        "GPULoadStoreSpec",
        "",
        "I2",
    ),
    _worker(
        "size",
        "a transfer size, where told, is that of the blocks moved",
        _OFFLOAD,
        "TransferResult",
        "",
        "I15",
    ),
    _worker("ends", "every accepted transfer ends", _OFFLOAD, "OffloadingWorker", "", "I13"),
    _worker("returns", "a call in a legal order returns", _OFFLOAD, "OffloadingWorker", "", "I13"),
    _connector(
        "match-shape",
        "a match is a count and whether it comes asynchronously, which none does",
        "get_num_new_matched_tokens",
        "'False' if the first element is 0",
        "I12",
    ),
    _connector(
        "match-range",
        "a match lies within the request's tokens beyond those computed",
        "get_num_new_matched_tokens",
        "largest prefix of prompt-",
        "I12",
    ),
    Rule(
        "connector-match-pure",
        "KVConnector",
        "asking twice for a match changes nothing",
        _CONNECTOR,
        "",
        "should be side-effect free",
        "I12",
    ),
    _connector(
        "output-untouched",
        "building the metadata doesn't change the scheduler's output",
        "build_connector_meta",
        "should NOT modify fields in the scheduler_output",
        "I10",
    ),
    _connector(
        "sent-known",
        "a finished send belongs to a request that was told as finished and held its blocks, once",
        "get_finished",
        "must belong to a set provided in a call to this method",
        "I2",
    ),
    _connector(
        "received-known",
        "a finished receive belongs to a request that waits for its load, once",
        "get_finished",
        "ids of requests that have finished asynchronous transfer",
        "I3",
    ),
    _connector(
        "errors-known",
        "blocks that failed to load are blocks that were being loaded",
        "get_block_ids_with_load_errors",
        "Set of block IDs that encountered load errors",
        "I16",
    ),
    _connector(
        "finished-shape",
        "the end of a request is answered with whether blocks are held, and parameters or none",
        "request_finished",
        "being saved/sent asynchronously",
        "I11",
    ),
    _connector(
        "delivers",
        "every load that was accepted and every request whose blocks are held is reported in the end",
        "request_finished",
        "until the request_id is returned from",
        "I13",
    ),
    _connector(
        "reset",
        "after a reset that succeeded nothing matches until something was saved anew",
        "reset_cache",
        "True if the cache was successfully reset",
        "I8",
    ),
    _connector("returns", "a call in a legal order returns", "start_load_kv", "", "I13"),
    _engine(
        "request-open",
        "calls for a request come after it was announced, and no new ones after it finished",
        _OFFLOAD,
        "OffloadingManager.on_request_finished",
        "the scheduler will issue no more submit-side calls",
        "I2",
    ),
    _engine(
        "load-known",
        "only blocks that are there and filled are asked to be loaded",
        _OFFLOAD,
        "OffloadingManager.prepare_load",
        "It assumes all given blocks are offloaded",
        "I3",
    ),
    _engine(
        "complete-known",
        "only transfers that were prepared are completed, once, and none from before a reset",
        _MANAGER,
        "CPUOffloadingManager.reset_cache",
        "never called for pre-reset jobs",
        "I2",
    ),
    _engine(
        "completes",
        "every prepared transfer is completed in the end",
        _OFFLOAD,
        "OffloadingManager.complete_load",
        "as done loading",
        "I11",
    ),
    _engine(
        "finish-once",
        "a request's end is told exactly once",
        _CONNECTOR,
        "KVConnectorBase_V1.request_finished",
        "Called exactly once when a request has finished",
        "I11",
    ),
    _engine(
        "metadata",
        "loads and saves happen while the step's metadata is bound",
        _CONNECTOR,
        "KVConnectorBase_V1.wait_for_save",
        "Metadata remains bound during this call",
        "I10",
    ),
    _engine(
        "alloc-matched",
        "blocks are given for no more external tokens than were matched",
        _CONNECTOR,
        "KVConnectorBase_V1.update_state_after_alloc",
        "the number of tokens to load from the",
        "I12",
    ),
)

RULES: Final[dict[str, Rule]] = {rule.id: rule for rule in _RULES}
"""Every rule by its id."""


def rules_of(*keepers: Keeper) -> tuple[Rule, ...]:
    """The rules that these have to keep, in the order of the table."""
    return tuple(rule for rule in _RULES if rule.keeper in keepers)
