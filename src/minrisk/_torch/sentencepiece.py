"""SentencePiece tokenizers, run by SentencePiece itself, because converted ones may differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile

import numpy as np
from sentencepiece import SentencePieceProcessor

from minrisk._core.arrays import Ints
from minrisk._core.errors import InputError
from minrisk._core.texts import valid_unicode


class SentencePiece:
    """A SentencePiece model from a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._model = SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise InputError(f"{path}: cannot be read as a model of SentencePiece: {error}; "
                             "copy it again") from None

    def ids(self, text: str) -> Ints:
        return np.array(self._model.encode(valid_unicode(text)), dtype=np.intp)

    def vocabulary(self) -> dict[str, int]:
        return {self._model.id_to_piece(i): i for i in range(len(self._model))}

    def id(self, piece: str) -> int:
        """The id of a piece, which must exist."""
        found: int = self._model.piece_to_id(piece)
        if found == self._model.unk_id():
            raise InputError(f"{self._path}: found no piece {piece!r}; check that it belongs to "
                             "the model")
        return found


class SentencePieceTokenizer:
    """The part of transformers' tokenizer interface that we need, for [CLS] text [SEP]."""

    FILE = "spm.model"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = SentencePiece(path)
        self._begin, self._end = self._pieces.id("[CLS]"), self._pieces.id("[SEP]")
        self.pad_token_id = self._pieces.id("[PAD]")

    def __call__(self, texts: Sequence[str], **_: object) -> dict[str, list[Ints]]:
        """Token ids of the texts, without truncation."""
        return {"input_ids": [np.concatenate([[self._begin], self._pieces.ids(text), [self._end]])
                              for text in texts]}

    def get_vocab(self) -> dict[str, int]:
        return self._pieces.vocabulary()

    def save_pretrained(self, folder: Path) -> None:
        copyfile(self._path, folder / self.FILE)
