"""Generated texts and cases for property tests, and a corpus of random samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from minrisk.testing import Case

# few letters, so that n-grams repeat within and across texts
_DENSE = st.text(alphabet="ab .,(", max_size=24)
_WORDS = st.lists(st.sampled_from(["the", "cat", "(hi)", "mat.", "été", "日本", "👍🏽", "e\u0301"]),
                  max_size=12).map(" ".join)
_ANY = st.text(max_size=24)  # any Unicode but surrogates
_SPACES = st.text(alphabet="a \t\n\x0b\x1c\x1d\x1e\x1f\x85\xa0\u2003\u2028\u3000", max_size=12)

_CORPUS_WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "rug", "old", "red", "big"]

FEW = settings(max_examples=20)  # where a dozen tests generate the same kind of case

texts = st.one_of(_DENSE, _WORDS, _ANY, _SPACES)
text_lists = st.lists(texts, min_size=1, max_size=8)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Duplicates, unequal weights (some zero), uneven groups, one hypothesis."""
    pool = draw(st.lists(texts, min_size=1, max_size=5))
    hyps = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=7))
    refs = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=7))
    raw = draw(st.lists(st.integers(0, 3), min_size=len(refs), max_size=len(refs)))
    order = sorted(set(raw))
    weights = draw(st.lists(st.integers(0, 3), min_size=len(refs), max_size=len(refs)))
    heavy = draw(st.integers(0, len(refs) - 1))
    weights[heavy] += 1
    return Case(hyps, refs, [order.index(label) for label in raw], weights)


def corpus(count: int = 6) -> list[dict[str, Any]]:
    """Records with samples and their counts, the same each time."""
    rng = np.random.default_rng(0)
    return [{"id": f"s{i}", "source": f"source {i}", "more": [i],
             "samples": [" ".join(rng.choice(_CORPUS_WORDS, 5)) for _ in range(12)],
             "counts": rng.integers(1, 4, 12).tolist()} for i in range(count)]
