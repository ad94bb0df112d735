"""The tiny models: what is built is what the configuration says, once, and the reference reads it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.content.reference import Chain, Reference
from fuzzkv.targets.vllm.engine.models import CONFIGS, WINDOW, adapter, build

TOKENS = tuple(int(t) for t in np.random.default_rng(4).integers(3, 500, 160))


def test_the_hybrid_has_two_kinds_of_layers() -> None:
    folder = build("hybrid").path
    config = json.loads((folder / "config.json").read_text())
    assert config["layer_types"] == ["sliding_attention", "full_attention"] * 2
    assert config["sliding_window"] == WINDOW and build("hybrid").path == folder


@pytest.mark.parametrize("name", [*CONFIGS, "tiny"])
def test_blocks_in_turn_are_the_whole(name: str) -> None:
    model = Reference(build(name).path)
    whole, chain, parent = model.extend([], TOKENS, 0), Chain(model), -1
    for i in range(0, len(TOKENS), 32):
        parent = chain.block(parent, TOKENS[i : i + 32])
        for (k, v), (keys, values) in zip(chain.layers(parent), whole, strict=True):
            np.testing.assert_allclose(k, keys[i : i + 32], atol=2e-3)
            np.testing.assert_allclose(v, values[i : i + 32], atol=2e-3)
    assert chain.block(-1, TOKENS[:32]) == 0, "made once"


def test_a_window_forgets_and_full_attention_does_not() -> None:
    other = (*TOKENS[:2], 7, *TOKENS[3:])
    far = slice(150, 160)
    for name in ("window", "tiny"):
        model = Reference(build(name).path)
        a, b = model.extend([], TOKENS, 0), model.extend([], other, 0)
        assert np.array_equal(a[0][1][far], b[0][1][far])
        assert np.array_equal(a[1][1][far], b[1][1][far]) is (name == "window")


def test_adapters_differ_and_are_merged() -> None:
    folders = [None, adapter(1).path, adapter(2).path]
    values = [Reference(build("tiny").path, adapter=f).first_layer(TOKENS, 0)[1] for f in folders]
    keys = [Reference(build("tiny").path, adapter=f).first_layer(TOKENS, 0)[0] for f in folders]
    assert not np.allclose(values[0], values[1]) and not np.allclose(values[1], values[2])
    assert np.array_equal(keys[0], keys[1]), "keys are not adapted"


def test_other_names_go_to_the_other_models(tmp_path: Path) -> None:
    assert build("tiny").name == "tiny"
    with pytest.raises(UsageError, match="FKV031"):
        build("huge", tmp_path)
