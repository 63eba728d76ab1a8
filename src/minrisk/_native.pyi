"""The native core: texts are indexed once, and scores are arrays.

Rows of texts are int64 and weights are float64, both contiguous.
"""

from types import ModuleType
from typing import Final, type_check_only

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

@type_check_only
class _ChrfTexts:
    def __init__(self, texts: list[str], order: int, word_order: int, whitespace: bool,
                 /) -> None: ...
    def __len__(self) -> int: ...
    @staticmethod
    def join(a: _ChrfTexts, b: _ChrfTexts, /) -> _ChrfTexts: ...

@type_check_only
class _BleuTexts:
    def __init__(self, texts: list[str], order: int, tokenizer: str, /) -> None: ...
    def __len__(self) -> int: ...
    @staticmethod
    def join(a: _BleuTexts, b: _BleuTexts, /) -> _BleuTexts: ...

@type_check_only
class _Chrf(ModuleType):
    Texts: type[_ChrfTexts]
    @staticmethod
    def scores(texts: _ChrfTexts, hyps: _Ints, offsets: _Ints, members: _Ints, weights: _Floats,
               beta: float, smoothed: bool, threads: int, /) -> _Floats: ...
    @staticmethod
    def utility(texts: _ChrfTexts, hyps: _Ints, offsets: _Ints, members: _Ints, weights: _Floats,
                beta: float, smoothed: bool, threads: int, mass: _Floats, /) -> _Floats: ...
    @staticmethod
    def partial_statistics(hyps: _ChrfTexts, refs: _ChrfTexts, members: _Ints, weights: _Floats,
                           /) -> _Floats: ...
    @staticmethod
    def finalize(texts: _ChrfTexts, hyps: _Ints, partial: _Floats, beta: float, smoothed: bool,
                 /) -> _Floats: ...

@type_check_only
class _Bleu(ModuleType):
    Texts: type[_BleuTexts]
    @staticmethod
    def tokenize(texts: list[str], tokenizer: str, /) -> list[str]: ...
    @staticmethod
    def scores(texts: _BleuTexts, hyps: _Ints, offsets: _Ints, members: _Ints, weights: _Floats,
               smoothing: str, value: float, effective_order: bool, threads: int,
               /) -> _Floats: ...
    @staticmethod
    def utility(texts: _BleuTexts, hyps: _Ints, offsets: _Ints, members: _Ints, weights: _Floats,
                smoothing: str, value: float, effective_order: bool, threads: int, mass: _Floats,
                /) -> _Floats: ...
    @staticmethod
    def partial_statistics(hyps: _BleuTexts, refs: _BleuTexts, members: _Ints, weights: _Floats,
                           /) -> _Floats: ...
    @staticmethod
    def finalize(texts: _BleuTexts, hyps: _Ints, partial: _Floats, smoothing: str, value: float,
                 effective_order: bool, /) -> _Floats: ...

@type_check_only
class _Ter(ModuleType):
    @staticmethod
    def edits(hyp_words: _Ints, hyp_offsets: _Ints, ref_words: _Ints, ref_offsets: _Ints,
              threads: int, /) -> _Floats: ...

# numbers of a model are float32, or bfloat16 as uint16
_Numbers = npt.NDArray[np.float32] | npt.NDArray[np.uint16]

@type_check_only
class _Sampling(ModuleType):
    @staticmethod
    def likely(logits: _Numbers, least: float, tokens: _Ints, scores: npt.NDArray[np.float32],
               totals: npt.NDArray[np.float32], threads: int, /) -> None: ...
    @staticmethod
    def self_attention(queries: _Numbers, keys: _Numbers, values: _Numbers, cache: _Numbers,
                       paths: npt.NDArray[np.int32], out: _Numbers, threads: int, /) -> None: ...
    @staticmethod
    def cross_attention(queries: _Numbers, cache: _Numbers, sources: _Ints, lengths: _Ints,
                        out: _Numbers, threads: int, /) -> None: ...

_Singles = npt.NDArray[np.float32]

@type_check_only
class _Int8(ModuleType):
    @staticmethod
    def quantize(values: _Singles, bytes: npt.NDArray[np.uint8], largest: _Singles, threads: int,
                 /) -> None: ...
    @staticmethod
    def scale(products: _Singles, scales: _Singles, bias: _Singles, threads: int, /) -> None: ...

chrf: Final[_Chrf]
bleu: Final[_Bleu]
ter: Final[_Ter]
sampling: Final[_Sampling]
int8: Final[_Int8]

def set_simd(name: str, /) -> None:
    """Use the kernels of this name: avx512, avx2 or portable."""

def simd() -> str:
    """The name of the kernels in use."""

def available_simd() -> list[str]:
    """The kernels that this CPU can run, the fastest first."""
