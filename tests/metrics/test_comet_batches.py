"""How the texts of a packed encoder are divided into batches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra minrisk[comet]")

from comet_models import CHECKPOINTS, enter_hub
from minrisk.metrics.comet import Comet
from minrisk.metrics.comet.encoder import CometEncoder
from minrisk.metrics.comet.packed import BatchSize, packed_batches
from tolerance import assert_close

BUDGET = 32768
LENGTHS = st.lists(st.integers(2, 200), max_size=60)


@given(LENGTHS, st.integers(1, 3000))
def test_every_text_is_in_one_batch_which_has_room_for_it(lengths, budget):
    batches = list(packed_batches(lengths, budget))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == [*range(len(lengths))]
    assert [lengths[row] for row in rows] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[row] for row in batch) < budget


@pytest.mark.parametrize("seed", range(8))
def test_batches_have_few_sizes(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 100, rng.integers(100, 5000)).tolist()
    sizes = [BatchSize.of([np.empty(lengths[row]) for row in batch]).rounded_up()
             for batch in packed_batches(lengths, BUDGET)]
    for size in sizes[:-1]:
        assert (size.tokens + 8) % (BUDGET // 8) == 0
    assert [size.tokens + 8 for size in sizes[:-2]] == [BUDGET] * len(sizes[:-2])


def test_texts_that_spell_the_padding_token_are_batched_with_their_padding(tmp_path, monkeypatch):
    enter_hub(tmp_path, monkeypatch)
    metric = Comet(model=str(CHECKPOINTS / "xlmr_mix_sparsemax"), dtype="fp32", device="cpu")
    plain = metric._embedder.encoder
    pad = plain.tokenizer.pad_token_id
    ids = [np.array([0, *[7] * 40, pad, 2]), *[np.array([0, 9, 2])] * 100]
    wanted, sizes = plain.encode(ids, 90), []
    monkeypatch.setattr(CometEncoder, "_run", lambda own, batch, also, run=CometEncoder._run: (
        sizes.append(len(batch) * max(map(len, batch))), run(own, batch, also))[1])
    packed = replace(plain, packed=SimpleNamespace(embed=plain.embed))
    assert_close(packed.encode(ids, 90), wanted, "fp32")
    assert max(sizes) <= 90
