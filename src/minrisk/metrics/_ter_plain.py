"""TER without the native core: sacreBLEU counts the edits.

Same interface and same numbers as `minrisk._native.ter`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import MissingExtra


def edits(hyp_words: Ints, hyp_offsets: Ints, ref_words: Ints, ref_offsets: Ints,
          threads: int) -> Floats:
    """(H, R) of texts whose words are numbers in one array, with the offset of each text."""
    try:
        from sacrebleu.metrics.lib_ter import translation_edit_rate
    except ImportError:
        raise MissingExtra("the 'ter' metric needs minrisk's native core (a C++20 compiler when "
                           "it is installed), or sacrebleu, which is slow: "
                           "pip install 'minrisk[ter]'") from None
    hyps, refs = _texts(hyp_words, hyp_offsets), _texts(ref_words, ref_offsets)
    return np.array([[translation_edit_rate(hyp, ref)[0] for ref in refs] for hyp in hyps],
                    dtype=np.float64).reshape(len(hyps), len(refs))


def _texts(words: Ints, offsets: Ints) -> list[list[str]]:
    return [[str(word) for word in words[a:b].tolist()] for a, b in pairwise(offsets)]
