"""TER without the native core, with sacreBLEU's implementation.

Same interface and same numbers as `minrisk._native.ter`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import needs_extra


def edits(hyp_words: Ints, hyp_offsets: Ints, ref_words: Ints, ref_offsets: Ints,
          threads: int) -> Floats:
    """(H, R) edits between texts, whose words are numbers in one array with an offset per text."""
    with needs_extra("the 'ter' metric without minrisk's native core", "bleu"):
        from sacrebleu.metrics.lib_ter import translation_edit_rate
    hyps, refs = _texts(hyp_words, hyp_offsets), _texts(ref_words, ref_offsets)
    return np.array([[translation_edit_rate(hyp, ref)[0] for ref in refs] for hyp in hyps],
                    dtype=np.float64).reshape(len(hyps), len(refs))


def _texts(words: Ints, offsets: Ints) -> list[list[str]]:
    return [[str(word) for word in words[a:b].tolist()] for a, b in pairwise(offsets)]
