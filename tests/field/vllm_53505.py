"""vllm#53505: speculation, a KV connector and hybrid cache groups: a request resumes beyond its recurrent state.

In the report's matrix every pair is clean.  With all three, full attention hits a boundary that the recurrent group
has no state for: drafts filled a page, so that attention's part of it could be kept once they were accepted, while a
recurrent state that has run on into drafts can't be kept there.  The connector resumes both from the larger one.

Simplified [R]: a draft fills a page at most; a state is kept at any page boundary; a request that is set aside and
comes back stands for the prefix hit.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, PAUSE, TICK, VERIFY, Config
from tests.field.report import Report

TOKENS_AHEAD = 0


def have_two_groups(s: State, k: Int) -> None:
    """Every session has recurrent layers beside full attention."""
    for r in each(NR):
        split_groups(s, get(s, R_ACTIVE, r) == 1, k, r)


def save_session(s: State, k: Int, r: Int) -> None:
    """A session that runs: at a page boundary that it hasn't saved yet each group is asked to keep its state
    there; full pages of accepted tokens are copied out.

    The mark of a page says that the boundary behind it was saved, and for how many groups.
    """
    groups = 1 + get(s, GROUP, r)
    for i in each(PAGES):
        p = r * PAGES + i
        runs = and_(running(s, r), i < get(s, R_N, r))
        stands = and_(runs, i == get(s, R_N, r) - 1, complete_page(s, p))
        new = and_(stands, get(s, MARK, k * NP + p) != groups)
        checkpoint(s, new, k, r)
        put_if(s, new, MARK, k * NP + p, groups)
        put_if(s, and_(runs, not_(complete_page(s, p))), MARK, k * NP + p, 0)
        begin_store(s, and_(runs, complete_page(s, p), settled(s, p)), k, p)


def saved_boundary(s: State, k: Int, r: Int) -> Int:
    """The largest boundary that was saved for these groups, all pages before it being on the host."""
    best = 0
    whole = 1
    for i in each(PAGES):
        p = r * PAGES + i
        whole = ite(and_(i < get(s, R_N, r), hosted(s, p)), whole, 0)
        saved = get(s, MARK, k * NP + p) == 1 + get(s, GROUP, r)
        best = ite(and_(whole == 1, saved), i + 1, best)
    return best


def resume_session(s: State, k: Int, r: Int, n: Int) -> None:
    """A session that waits resumes from the boundary ``n``, and its pages before that are loaded."""
    resume(s, and_(waiting(s, r), n > 0, get(s, R_BOUND, r) != n), k, r, n)
    for i in each(PAGES):
        p = r * PAGES + i
        begin_load(s, and_(waiting(s, r), i < n, to_do(s, p)), k, p)


def resume_where_attention_hits(s: State, k: Int) -> None:
    """Takes what it has saved for the boundary of all groups."""
    for r in each(NR):
        save_session(s, k, r)
        resume_session(s, k, r, saved_boundary(s, k, r))


def resume_where_all_groups_hit(s: State, k: Int) -> None:
    """The repair: the boundary is the largest that every group has."""
    for r in each(NR):
        save_session(s, k, r)
        most = saved_boundary(s, k, r)
        resume_session(s, k, r, ite(get(s, GROUP, r) == 1, kept_boundary(s, r, most), most))


def draft_ahead(s: State, k: Int) -> None:
    """Sessions that run get drafts, up to the end of a page."""
    for r in each(NR):
        draft(s, running(s, r), k, r, get(s, PARAM, k * NPARAM + TOKENS_AHEAD))


_EVIDENCE = Evidence(
    target="next-access", horizon=1, confidence=900, provenance="queue", calibrated_on="prompts"
)
_MANIFEST = Manifest(
    kind="offload",
    actions=(COPY_OUT, COPY_IN, *does("checkpoint", "resume")),
    evidence=_EVIDENCE,
    source="vllm#53505, any KV connector",
    fidelity="[R] all pages of a session in one act",
)
CONNECTOR = Policy(
    name="boundary-connector",
    version="1",
    rule=resume_where_attention_hits,
    workload=("pause",),
    manifest=_MANIFEST,
)
CONNECTOR_REPAIRED = Policy(
    name="boundary-connector",
    version="2",
    rule=resume_where_all_groups_hit,
    workload=("pause",),
    manifest=_MANIFEST,
)
HYBRID = Policy(
    name="hybrid-groups",
    version="1",
    rule=have_two_groups,
    manifest=Manifest(
        kind="reuse",
        actions=does("split_groups", authority_copy="none"),
        evidence=_EVIDENCE,
        source="vllm#53505, a model with recurrent layers",
        fidelity="[R] one recurrent group",
    ),
)
SPECULATION = Policy(
    name="page-drafts",
    version="1",
    parameters={"tokens": 4},
    rule=draft_ahead,
    workload=("verify",),
    manifest=Manifest(
        kind="rewind",
        actions=does("draft", authority_copy="none"),
        evidence=_EVIDENCE,
        source="vllm#53505, speculative decoding",
        fidelity="[R] drafts end with their page",
    ),
)

REPORT = Report(
    name="vllm#53505",
    title="a connector resumes a drafted session where its recurrent group has no state",
    url="https://github.com/vllm-project/vllm/issues/53505",
    invariant="I10",
    policies=(CONNECTOR, HYBRID, SPECULATION),
    repaired={"boundary-connector": CONNECTOR_REPAIRED},
    trace=(
        (ARRIVE, 0, 1),
        (ACT, 1, 0),
        (ACT, 2, 0),
        (ACT, 0, 0),
        (VERIFY, 0, 4),
        (ACT, 0, 0),
        (TICK, 4, 0),
        (PAUSE, 0, 0),
        (ACT, 0, 0),
    ),
    config=Config(page_cost=2),
)
