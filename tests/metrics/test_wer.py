"""Error rates have jiwer's numbers, pair by pair and as a corpus."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

jiwer = pytest.importorskip("jiwer", reason="needs jiwer, whose error rates ours equal")

import minrisk
from commands import run, write
from generators import FEW, text_lists
from minrisk.metrics.edit import Cer, Wer
from project import blocks
from small_metrics import scores
from tolerance import assert_close

WERS = st.builds(Wer, lowercase=st.booleans(), no_punct=st.booleans())
CERS = st.builds(Cer, lowercase=st.booleans(), no_punct=st.booleans(), whitespace=st.booleans())
METRICS = st.one_of(WERS, CERS)


def transform(metric):
    """The same normalisation by jiwer's steps."""
    steps = [jiwer.ToLowerCase()] if metric.lowercase else []
    steps += [jiwer.RemovePunctuation()] if metric.no_punct else []
    steps += [jiwer.SubstituteRegexes({r"[\s\x1c-\x1f\x85]+": " "}), jiwer.Strip()]
    if metric.name == "wer":
        return jiwer.Compose([*steps, jiwer.ReduceToListOfListOfWords()])
    steps += [] if metric.whitespace else [jiwer.RemoveWhiteSpace()]
    return jiwer.Compose([*steps, jiwer.ReduceToListOfListOfChars()])


def jiwer_rate(metric, hyp, ref):
    rate = {"wer": jiwer.wer, "cer": jiwer.cer}[metric.name]
    steps = transform(metric)
    return rate(ref, hyp, reference_transform=steps, hypothesis_transform=steps)


@FEW
@given(metric=METRICS, hyps=text_lists, refs=text_lists)
@example(Wer(), ["", "a b"], ["", "a b c", "  "])
@example(Wer(lowercase=True, no_punct=True), ["Hello, world!"], ["hello world", "¿hola, MUNDO?"])
@example(Cer(no_punct=True, whitespace=False), ["今日は、 晴れ。"], ["今日 は晴れ", "、。"])
def test_every_pair_equals_jiwer(metric, hyps, refs):
    expected = [[-100 * jiwer_rate(metric, hyp, ref) for ref in refs] for hyp in hyps]
    assert_close(scores(metric, hyps, refs), expected)


@pytest.mark.parametrize("metric", [Wer(), Cer()], ids=lambda m: m.name)
def test_white_space_of_any_kind_separates_words(metric):
    assert scores(metric, ["a\tb\n\nc\u00a0d  e"], ["a b c d e"]).tolist() == [[0.0]]


@pytest.mark.parametrize("metric", [Wer(), Cer()], ids=lambda m: m.name)
@FEW
@given(pairs=st.lists(st.tuples(st.text("ab c", max_size=9), st.text("ab c", max_size=9)),
                      min_size=1, max_size=5))
def test_a_corpus_equals_jiwer(metric, pairs):
    hyps, refs = map(list, zip(*pairs, strict=True))
    ours = minrisk.score(hyps, refs, metric=metric).value
    assert_close(-ours, 100 * jiwer_rate(metric, hyps, refs))


def test_of_several_references_the_one_with_the_lowest_rate_counts():
    rows = Wer().statistics(["a b c"], [["x y z", "a b c d e", "a b"]])
    assert rows.tolist() == [[2.0, 5.0]]


@given(hyps=text_lists, refs=text_lists)
def test_words_of_texts_that_were_read_apart_have_the_same_numbers(hyps, refs):
    wer = Wer()
    together = wer.features([*hyps, *refs])
    rows = np.arange(len(hyps) + len(refs))
    expected = wer.scores(together[rows[:len(hyps)]], together[rows[len(hyps):]])
    np.testing.assert_array_equal(scores(wer, hyps, refs), expected)


def test_the_command_line_shows_a_rate(tmp_path):
    lines = write(tmp_path / "system.txt", "a cat sat")
    references = write(tmp_path / "references.txt", "the cat sat down")
    shown = run("score", lines, "-r", references, "--metric", "wer")
    assert json.loads(shown.out)["score"] == 50.0


def tiny_whisper():
    """A speech recogniser with random weights."""
    torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8,
        max_source_positions=20, max_target_positions=24, decoder_start_token_id=1, bos_token_id=1,
        eos_token_id=2, pad_token_id=0, suppress_tokens=[], begin_suppress_tokens=[])
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.generation_config.max_length = 7
    return model


class Processor:
    """Stands for Whisper's: features of a sound, and words of tokens."""

    words = ("the", "a", "cat", "dog", "sat", "ran", "on", "in", "mat", "hat")

    def __call__(self, audio, sampling_rate, return_tensors):
        assert (sampling_rate, return_tensors) == (16_000, "pt")
        return {"input_features": audio}

    def batch_decode(self, rows, skip_special_tokens):
        assert skip_special_tokens
        return [" ".join(self.words[token % 10] for token in row.tolist() if token > 2)
                for row in rows]


def test_an_n_best_list_of_whisper_is_decoded_by_word_error_rate(tmp_path, capsys):
    """As the page has it."""
    model = tiny_whisper()
    audio = pytest.importorskip("torch").randn(1, 8, 40)
    exec(blocks("docs/guides/utilities.md", "py")[0],
         {"processor": Processor(), "model": model, "audio": audio})
    line = json.loads(capsys.readouterr().out)
    texts = line["samples"]
    assert len(texts) == 16
    assert len(set(texts)) > 1
    result = run("decode", write(tmp_path / "nbest.jsonl", line), "--metric", "wer")
    [record] = result.records
    expected = minrisk.decode(texts, metric=Wer())
    assert (record["text"], record["id"]) == (expected.text, "talk-1")
    rates = [np.mean([100 * jiwer.wer(ref, hyp) if ref else 100.0 * len(hyp.split())
                      for ref in texts]) for hyp in texts]
    assert_close(expected.utility, np.negative(rates))
