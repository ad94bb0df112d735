"""What one room leaves behind for the next: copies that are called off, entries, branches, rewinds, late writes."""

from __future__ import annotations

from dataclasses import dataclass

from fuzzkv.semantics import apply
from fuzzkv.semantics.facts import present
from fuzzkv.semantics.layout import (
    ALL_PARTS,
    COLUMNS,
    DEVICE_PART,
    HOST_PART,
    INDEX_PART,
    KEY_ALL,
    NINV,
    PAGES,
    STATE_PART,
)
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.start import first_state
from tests.broken import CAREFUL


@dataclass
class Machine:
    """A state with two policies; ``event`` and ``do`` change it."""

    enforce: bool = False

    def __post_init__(self) -> None:
        self.state = first_state(Config(), (CAREFUL, CAREFUL), enforce=self.enforce)

    def event(self, name: str, a: int, b: int = 0) -> None:
        """One event of a schedule."""
        getattr(apply, f"apply_{name}")(self.state, a, b)

    def do(self, name: str, *arguments: int, slot: int = 0) -> bool:
        """One primitive of a policy."""
        return bool(OPERATIONS[name](self.state, True, slot, *arguments))

    def at(self, column: str, place: int = 0) -> int:
        """A number of the state."""
        return self.state[COLUMNS[column] + place]

    @property
    def broken(self) -> list[str]:
        """Invariants that are broken."""
        return [f"I{i}" for i in range(1, NINV) if self.at("V_COUNT", i)]

    def bring_back(self, page: int) -> None:
        """Copy a page to the host, drop it from the device and load it again."""
        assert self.do("begin_store", page)
        self.event("tick", 8)
        assert self.do("drop_device", page) and self.do("begin_load", page)
        self.event("tick", 8)

    def delete(self, page: int) -> None:
        """Delete a page for good, and pay for it."""
        assert self.do("begin_store", page)
        self.event("tick", 8)
        assert self.do("drop_device", page) and self.do("drop_host", page, 1) and self.do("lose", page)


def test_a_store_that_sleep_calls_off_gives_its_host_frame_back() -> None:
    m = Machine()
    m.event("arrive", 0, 2)
    assert m.do("begin_store", 0) and m.do("doze", DEVICE_PART + INDEX_PART + STATE_PART)
    assert m.at("HOST", 0) == m.at("H_PAGE", 0) == -1
    m.event("step", 0, 0)
    assert m.do("begin_store", 0)


def test_a_receive_that_is_called_off_leaves_its_page_to_be_computed() -> None:
    m = Machine()
    m.event("queue", 0, 1)
    assert m.do("receive", 0, 0) and m.do("load_weights", HOST_PART + INDEX_PART + STATE_PART)
    m.event("step", 0, 0)
    assert m.at("STEPS") == 1 and not m.broken


def test_an_entry_whose_copy_is_in_flight_is_nobody_elses() -> None:
    m = Machine()
    m.event("arrive", 0, 2)
    assert m.do("spill", 0, KEY_ALL, 1) and m.do("unpublish", 0) and m.do("publish", 1, KEY_ALL)
    m.event("tick", 8)
    m.event("pause", 0)
    assert m.do("hit", 1, KEY_ALL) and not m.broken


def test_a_branch_has_no_checkpoints_of_who_was_there_before() -> None:
    m = Machine()
    m.event("arrive", 1, 2)
    assert m.do("split_groups", 1) and m.do("checkpoint", 1)
    m.event("finish", 1)
    m.event("arrive", 0, 2)
    assert m.do("fork", 0, 1)
    m.event("step", 1, 0)
    assert m.do("split_groups", 1)
    m.event("pause", 1)
    assert m.do("resume", 1, 2) and m.broken == ["I10"]


def test_a_branch_has_its_parents_losses_and_who_caused_them() -> None:
    m = Machine()
    m.event("arrive", 0, 4)
    m.delete(1)
    assert m.do("fork", 0, 1, slot=1)
    assert m.at("R_LOSS", 1) == m.at("R_LOSS", 0) == m.at("SPENT", 0) == m.at("SPENT", 1) > 0


def test_a_rewound_page_is_expected_again() -> None:
    m = Machine()
    m.event("arrive", 0, 4)
    m.delete(1)
    assert m.do("rewind", 0, 1, ALL_PARTS)
    m.event("step", 0, 1)
    assert m.at("EVICTED", 1) == 0 and present(m.state, 1)
    assert m.do("drop_device", 1)
    m.event("step", 0, 1)
    assert "I1" in m.broken


def test_a_branch_that_shares_its_tail_is_rewound_whole() -> None:
    for r in (0, 1):
        m = Machine(enforce=True)
        m.event("arrive", 0, 3)
        assert m.do("fork", 0, 0) and m.do("rewind", r, 1, ALL_PARTS)
        m.event("step", r, 2)
        assert not m.broken and m.at("DEV", 2) != m.at("DEV", PAGES + 2)


def test_a_late_step_may_write_its_own_page() -> None:
    """The page was loaded, and has grown or was laid out anew since the step was launched."""
    for after in ("grow", "relayout"):
        m = Machine()
        m.event("arrive", 0, 1)
        m.event("grow", 0, 1)
        m.bring_back(1)
        assert m.do("drop_host", 1, 0) and m.do("run_ahead", 0)
        if after == "grow":
            m.event("grow", 0, 1)
        else:
            assert m.do("relayout", 1)
        m.event("tick", 20)
        assert not m.broken


def test_new_tokens_mend_no_old_ones() -> None:
    m = Machine()
    m.event("arrive", 0, 1)
    m.event("grow", 0, 1)
    assert m.do("begin_store", 1)
    m.event("tick", 8)
    m.event("grow", 0, 1)
    # The host copy lacks a token.
    assert m.do("drop_device", 1) and m.do("begin_load", 1)
    m.event("tick", 8)
    m.event("grow", 0, 1)
    m.event("step", 0, 1)
    assert "I4" in m.broken


def test_sleep_that_leaves_blank_pages_to_readers_is_refused() -> None:
    m = Machine(enforce=True)
    m.event("arrive", 0, 1)
    assert not m.do("doze", ALL_PARTS - DEVICE_PART) and m.do("doze", ALL_PARTS)
    m.event("step", 0, 0)
    assert not m.broken


def test_a_draft_that_sleep_cleared_is_waited_for_no_more_when_it_is_taken_back() -> None:
    m = Machine()
    m.event("arrive", 0, 2)
    assert m.do("draft", 0, 3) and m.do("doze", ALL_PARTS)
    assert m.at("R_TODO") == 3
    m.event("verify", 0, 0)
    assert m.at("R_TODO") == 2


def test_a_pool_that_sessions_fill_is_nobodys_fault() -> None:
    for keeps in (False, True):
        m = Machine()
        m.event("arrive", 0, 6)
        m.event("arrive", 1, 6 - keeps)
        if keeps:
            assert m.do("publish", 3, KEY_ALL)
            m.event("finish", 0)
            m.event("arrive", 0, 6)
        m.event("grow", 1, 1)
        assert m.broken == (["I14"] if keeps else [])
