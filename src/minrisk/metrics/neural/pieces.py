"""Tokenizers that are models of SentencePiece, read by itself: what rebuilds them may differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor

from minrisk.arrays import Ints
from minrisk.errors import InputError


class Pieces:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._model = SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise InputError(f"{path}: cannot be read as a model of SentencePiece: {error}; "
                             "copy it again") from None

    def ids(self, text: str) -> Ints:
        return np.array(self._model.encode(text), dtype=np.intp)

    def id(self, piece: str) -> int:
        """Of a piece that must be there."""
        found: int = self._model.piece_to_id(piece)
        if found == self._model.unk_id():
            raise InputError(f"{self._path}: found no piece {piece!r}; is it another's model?")
        return found
