"""Scenarios follow from the seed, meet the block boundaries, and say what they share with their branch."""

from __future__ import annotations

import re

import pytest

from fuzzkv.targets.vllm.audit.scenarios import BLOCK, KINDS, Scenario, random_scenarios
from fuzzkv.targets.vllm.audit.texts import CONVERSATIONS, text_scenarios


def words(text: str) -> list[int]:
    """A tokenizer of words: one token a word or sign."""
    return [3 + sum(map(ord, word)) % 500 for word in re.findall(r"\S+|\n", text)]


def test_the_same_seed_gives_the_same() -> None:
    assert random_scenarios(512, 5, 4) == random_scenarios(512, 5, 4)
    assert random_scenarios(512, 5, 4) != random_scenarios(512, 6, 4)
    assert random_scenarios(512, 5, 4)[:10] == random_scenarios(512, 5, 2)
    assert text_scenarios(words, 5, 3) == text_scenarios(words, 5, 3)


def test_lengths_are_at_and_beside_block_boundaries() -> None:
    residues = {len(sc.keep) % BLOCK for sc in random_scenarios(512, 1, 8)}
    assert residues == {0, 1, BLOCK // 2, BLOCK - 1}
    assert all(len(sc.branch) > 0 and len(sc.step) > 0 for sc in random_scenarios(512, 1, 8))
    assert all(len(sc.committed) + len(sc.branch) < 400 for sc in random_scenarios(512, 1, 32))


def test_the_kinds() -> None:
    for sc in random_scenarios(512, 3, 8):
        assert len(sc.keep) <= sc.common < len(sc.keep) + len(sc.branch), "the step must leave the branch"
        assert sc.accepted == 0 or sc.kind == "draft"
        if sc.kind == "edit":
            at = sc.common - len(sc.keep)
            assert sc.step[at] != sc.branch[at] and sc.step[at + 1 : len(sc.branch)] == sc.branch[at + 1 :]


def test_what_is_shared() -> None:
    assert Scenario("retry", 0, (1, 2), (3, 4, 5), (3, 4, 9)).common == 4
    assert Scenario("retry", 0, (1, 2), (3, 4), (3, 4)).common == 4
    assert Scenario("tool", 0, (1, 2), (3,), (4,)).common == 2


@pytest.mark.parametrize("kind", KINDS)
def test_conversations_are_padded_to_a_boundary(kind: str) -> None:
    scenarios = [sc for sc in text_scenarios(words, 2, 4) if sc.kind == kind]
    assert len(scenarios[0].keep) % BLOCK == 0
    assert {len(sc.keep) % BLOCK for sc in scenarios[1:]} <= {1, BLOCK // 2, BLOCK - 1}
    for sc in scenarios:
        assert list(sc.branch) == words(CONVERSATIONS[kind].branch)
        assert sc.keep[-len(words(CONVERSATIONS[kind].keep)) :] == tuple(words(CONVERSATIONS[kind].keep))
