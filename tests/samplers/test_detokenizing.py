"""Texts of many sequences at once are those of the tokenizer's own `decode`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra minrisk[hf]")

import tiny_models
from minrisk._torch.detokenizing import Detokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
TEXTS = ["the cat sat on a mat", "a red dog, ran to it!", "été: zero 123", "日本語 text"] * 3


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("marian")
    (folder / "texts").write_text("\n".join(TEXTS), encoding="utf-8")
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "texts"), model_prefix=str(folder / side), vocab_size=60,
            hard_vocab_limit=False, minloglevel=2)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))
    words = ["</s>", "<unk>", *(pieces.id_to_piece(i) for i in range(3, len(pieces))), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    return transformers.MarianTokenizer(
        source_spm=str(folder / "source.spm"), target_spm=str(folder / "target.spm"),
        vocab=str(folder / "vocab.json"), separate_vocabs=False)


def sequences(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, size, rng.integers(0, 12)) for _ in range(200)]


def test_a_text_without_words_may_be_the_first(marian):
    detokenize = Detokenizer(marian)
    special = np.array([marian.eos_token_id])
    texts = detokenize([special, np.empty(0, np.intp), *sequences(len(marian)), special])
    assert detokenize._fast is not None
    assert [texts[0], texts[1], texts[-1]] == ["", "", ""]
    assert texts[2:-1] == detokenize(sequences(len(marian)))


@pytest.mark.parametrize("clean", [False, True])
def test_texts_of_marian_are_those_of_its_own_decode(marian, clean):
    marian.clean_up_tokenization_spaces = clean
    detokenize = Detokenizer(marian)
    found = detokenize(sequences(len(marian)))
    assert detokenize._fast is not None
    assert found == [marian.decode(own.tolist(), skip_special_tokens=True)
                     for own in sequences(len(marian))]


def test_texts_of_a_fast_tokenizer_are_those_of_its_own_decode():
    tokenizer = tiny_models.tokenizer()
    tokenizer.clean_up_tokenization_spaces = False
    detokenize = Detokenizer(tokenizer)
    found = detokenize(sequences(len(tokenizer)))
    assert detokenize._fast is not None
    assert found == tokenizer.batch_decode([own.tolist() for own in sequences(len(tokenizer))],
                                           skip_special_tokens=True)


def test_what_does_not_agree_with_the_tokenizer_is_not_used():
    tokenizer = tiny_models.tokenizer()
    detokenize = Detokenizer(tokenizer)
    detokenize._fast = lambda given: ["another text"] * len(given)
    assert detokenize([np.array([6, 7])]) == ["the cat"]
    assert detokenize._fast is None
