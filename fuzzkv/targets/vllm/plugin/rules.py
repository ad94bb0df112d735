"""The rules that vLLM states for code that plugs into its cache, as data.

A rule says who has to keep it, what it asks in our own words, where the engine says so (module, symbol and a few
words that stand there, so that a test notices when a release moves or drops them) and which invariant a breach
belongs to.  A rule without such words is nowhere stated: the engine relies on it all the same, in the symbol given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Keeper = Literal["CachePolicy", "OffloadingManager", "OffloadingWorker", "KVConnector", "engine"]

ENGINE: Final = "0.32.0"
"""The vLLM release whose text was read."""

KEEPERS: Final[dict[str, Keeper]] = {
    "policy": "CachePolicy",
    "manager": "OffloadingManager",
    "worker": "OffloadingWorker",
    "connector": "KVConnector",
    "engine": "engine",
}
"""Who keeps a rule, by the first part of its id."""

MODULES: Final = {
    "offload": "v1/kv_offload/base.py",
    "policies": "v1/kv_offload/cpu/policies/base.py",
    "cpu": "v1/kv_offload/cpu/manager.py",
    "connector": "distributed/kv_transfer/kv_connector/v1/base.py",
    "scheduler": "distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py",
    "worker": "distributed/kv_transfer/kv_connector/v1/offloading/worker.py",
    "common": "distributed/kv_transfer/kv_connector/v1/offloading/common.py",
}
"""Files under ``vllm/``, by the names that the table uses."""

TABLE: Final = """
policy-get I8: what was inserted is found, the very object, until it is removed, evicted or cleared
    policies CachePolicy.get: Returns None if not present
policy-evict-exact I11: evict takes out exactly as many chunks as were asked for
    policies CachePolicy.evict: Evict exactly n chunks
policy-evict-protected I12: evict leaves the protected chunks alone
    policies CachePolicy.evict: skipping any in protected
policy-evict-idle I1: evict never takes a chunk that a transfer reads or that isn't filled yet
    cpu CPUOffloadingManager.prepare_store: cache-policy removes only idle chunks
policy-evict-truth I8: evict names chunks that were there, each once and with its own place, and then they are gone
    policies CachePolicy.evict: (key, chunk) for the evicted chunks
policy-evict-none I8: an evict that answers None has changed nothing, the order of later evictions included
    policies CachePolicy.evict: no state changes are made
policy-evict-able I13: evict answers None only if fewer than that many chunks may go
    policies CachePolicy.evict: None if n evictions cannot be satisfied
policy-remove I16: a removed chunk, whose store failed, is gone and every other one is still there
    policies CachePolicy.remove: clean up after a failed store
policy-keep I8: touches, misses, marks and the ends of requests change no membership
    policies CachePolicy.touch: Mark chunks as recently used
policy-owner I11: a chunk's count of readers and its place are the manager's: a policy never writes them
    cpu CPUOffloadingManager: The manager owns all shared logic
policy-clear I8: clear takes out every chunk, whoever reads it
    policies CachePolicy.clear: Remove ALL chunks regardless of ref_cnt
policy-clear-forgets I9: after clear the policy decides as a new one does
    policies CachePolicy.clear: adaptive state are also reset
policy-returns I13: a call that the engine makes in a legal order returns
    policies CachePolicy

manager-hit-ready I3: a lookup is a hit only for a block whose store has been completed and that is still there
    offload OffloadingManager.lookup: HIT if the block is offloaded and ready
manager-pending I13: a lookup says pending only while a store of that block is under way
    offload OffloadingManager.lookup: HIT_PENDING if found but not yet readable
manager-told I8: a stored block stays until the manager has told that it was evicted
    offload OffloadingManager.prepare_store: list of blocks that were evicted as a result
manager-load-pin I1: blocks prepared to be loaded aren't evicted before complete_load
    offload OffloadingManager.prepare_load: protected from eviction until complete_load is called
manager-store-pin I2: blocks prepared to be stored aren't evicted before complete_store
    offload OffloadingManager.prepare_store: protected from eviction until complete_store is called
manager-load-places I4: a load reads every block from the place where it was stored, in the order asked for
    offload OffloadingManager.prepare_load: locate and load the actual offloaded KV data
manager-store-offered I7: blocks to store are among those offered, each once
    offload OffloadingManager.prepare_store: indicating which blocks need storing
manager-store-once I2: a block that is there, or on its way, isn't stored a second time
    offload OffloadPolicy: already offloaded by a prior request
manager-store-order I4: blocks to store come in the order in which they were offered: sources and places are paired by it
    scheduler OffloadingConnectorScheduler._build_store_jobs
manager-store-places I2: each block to store gets one place, which no other block holds
    offload OffloadingManager.prepare_store: where to store them
manager-evicted I8: blocks told as evicted were there, and none of them was offered in the same call
    cpu CPUOffloadingManager.prepare_store: must remain in the cache after this call
manager-stored I15: after a completed store the blocks can be loaded
    offload OffloadingManager.complete_store: Following this call, the blocks become loadable
manager-failed I16: a failed store leaves nothing behind
    offload OffloadingManager.complete_store: blocks that were not marked as stored will be removed
manager-room I11: once no transfer is under way, all of the room can be had again
    offload: This is to re-allow their eviction
manager-events I8: events tell each completed store and each eviction once, and nothing else
    offload OffloadingManager.take_events: New OffloadingEvents collected since the last call
manager-touch I8: a touch changes no membership
    offload OffloadingManager.touch: Mark the given blocks as recently used
manager-reset I8: after a reset nothing is found
    offload OffloadingManager.reset_cache: Evict all tracked blocks
manager-reset-forgets I9: after a reset the manager answers as a new one does
    offload OffloadingManager.reset_cache: reset internal state
manager-late I13: transfers of a finished request may still be completed
    offload OffloadingManager.on_request_finished: may still arrive afterward
manager-idle I13: a manager without work says so in the end, or the engine never rests
    offload OffloadingManager.has_pending_work: needs the engine to keep stepping
manager-answer I13: a lookup that has to be tried again gets an answer in the end
    offload OffloadingManager.lookup: lookup should be retried later
manager-shape I5: answers are of the declared kinds
    offload OffloadingManager: HIT if the block is offloaded
manager-returns I13: a call that the engine makes in a legal order returns
    offload OffloadingManager

worker-accepts I13: a submitted transfer is accepted
    worker OffloadingConnectorWorker.start_kv_transfers
worker-known I11: results name submitted transfers, each once
    common OffloadingWorkerMetadata: newly completed transfer jobs
worker-wait I2: after a wait the named transfers are done and are reported next
    connector KVConnectorBase_V1.handle_preemptions: BEFORE they are overwritten
worker-success I16: no transfer is reported as failed: this release stops the engine at it
    worker OffloadingConnectorWorker.get_finished: we currently do not support job failures
worker-bytes I4: a load brings the bytes that were stored at that place
    offload OffloadingManager.prepare_load: locate and load the actual offloaded KV data
worker-neighbours I2: a transfer writes no device block but those it names
    offload GPULoadStoreSpec
worker-size I15: a transfer size, where told, is that of the blocks moved
    offload TransferResult
worker-ends I13: every accepted transfer ends
    offload OffloadingWorker
worker-returns I13: a call in a legal order returns
    offload OffloadingWorker

connector-match-shape I12: a match is a count and whether it comes asynchronously, which none does
    connector KVConnectorBase_V1.get_num_new_matched_tokens: 'False' if the first element is 0
connector-match-range I12: a match lies within the request's tokens beyond those computed
    connector KVConnectorBase_V1.get_num_new_matched_tokens: largest prefix of prompt-
connector-match-pure I12: asking twice for a match changes nothing
    connector: should be side-effect free
connector-output-untouched I10: building the metadata doesn't change the scheduler's output
    connector KVConnectorBase_V1.build_connector_meta: should NOT modify fields in the scheduler_output
connector-sent-known I2: a finished send belongs to a request that was told as finished and held its blocks, once
    connector KVConnectorBase_V1.get_finished: must belong to a set provided in a call to this method
connector-received-known I3: a finished receive belongs to a request that waits for its load, once
    connector KVConnectorBase_V1.get_finished: ids of requests that have finished asynchronous transfer
connector-errors-known I16: blocks that failed to load are blocks that were being loaded
    connector KVConnectorBase_V1.get_block_ids_with_load_errors: Set of block IDs that encountered load errors
connector-finished-shape I11: the end of a request is answered with whether blocks are held, and parameters or none
    connector KVConnectorBase_V1.request_finished: being saved/sent asynchronously
connector-delivers I13: every load that was accepted and every request whose blocks are held is reported in the end
    connector KVConnectorBase_V1.request_finished: until the request_id is returned from
connector-reset I8: after a reset that succeeded nothing matches until something was saved anew
    connector KVConnectorBase_V1.reset_cache: True if the cache was successfully reset
connector-returns I13: a call in a legal order returns
    connector KVConnectorBase_V1.start_load_kv

engine-request-open I2: calls for a request come after it was announced, and no new ones after it finished
    offload OffloadingManager.on_request_finished: the scheduler will issue no more submit-side calls
engine-load-known I3: only blocks that are there and filled are asked to be loaded
    offload OffloadingManager.prepare_load: It assumes all given blocks are offloaded
engine-complete-known I2: only transfers that were prepared are completed, once, and none from before a reset
    cpu CPUOffloadingManager.reset_cache: never called for pre-reset jobs
engine-completes I11: every prepared transfer is completed in the end
    offload OffloadingManager.complete_load: as done loading
engine-finish-once I11: a request's end is told exactly once
    connector KVConnectorBase_V1.request_finished: Called exactly once when a request has finished
engine-metadata I10: loads and saves happen while the step's metadata is bound
    connector KVConnectorBase_V1.wait_for_save: Metadata remains bound during this call
engine-alloc-matched I12: blocks are given for no more external tokens than were matched
    connector KVConnectorBase_V1.update_state_after_alloc: the number of tokens to load from the
"""
"""Two lines a rule: id, invariant and what it asks; then module, symbol and the engine's words, if it has any."""


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


_ENTRY: Final = re.compile(
    r"^(?P<id>\S+) (?P<invariant>I\d+): (?P<text>.+)\n    (?P<module>\w+) ?(?P<symbol>[\w.]*)(?:: (?P<words>.+))?$",
    re.M,
)


def _read(entry: re.Match[str]) -> Rule:
    return Rule(
        id=entry["id"],
        keeper=KEEPERS[entry["id"].split("-")[0]],
        text=entry["text"],
        module=MODULES[entry["module"]],
        symbol=entry["symbol"],
        words=entry["words"] or "",
        invariant=entry["invariant"],
    )


RULES: Final[dict[str, Rule]] = {rule.id: rule for rule in map(_read, _ENTRY.finditer(TABLE))}
"""Every rule by its id."""


def rules_of(*keepers: Keeper) -> tuple[Rule, ...]:
    """The rules that these have to keep, in the order of the table."""
    return tuple(rule for rule in RULES.values() if rule.keeper in keepers)
