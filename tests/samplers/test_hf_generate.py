"""`model.generate(custom_generate=minrisk.hf.generate)`: MBR where transformers' users are."""

from __future__ import annotations

import doctest
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

import minrisk
import minrisk.hf
import tiny_models
from minrisk._core.errors import InputError
from tolerance import assert_close

TEXTS = ["the cat sat on a mat", "the dog"]
SETTINGS = {"custom_generate": minrisk.hf.generate, "num_samples": 40, "do_sample": True,
            "epsilon_cutoff": 0.02, "max_length": 10, "seed": 0}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Two models as they come from their folders, with their tokenizers."""
    made = {}
    for kind, auto in (("marian", AutoModelForSeq2SeqLM), ("llama", AutoModelForCausalLM)):
        folder = tiny_models.save(tmp_path_factory.mktemp(kind), kind)
        words = AutoTokenizer.from_pretrained(folder)
        words.padding_side = "right" if kind == "marian" else "left"
        made[kind] = auto.from_pretrained(folder), words
    return made


def batch(words) -> dict:
    given = words(TEXTS, return_tensors="pt", padding=True)
    return {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}


@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_generate_returns_the_sample_of_highest_utility(kind, loaded):
    model, words = loaded[kind]
    given = batch(words)
    out = model.generate(**given, **SETTINGS, tokenizer=words, metric="chrf",
                         strategy="aggregate", return_dict_in_generate=True)
    ids = model.generate(**given, **SETTINGS, tokenizer=words, metric="chrf", strategy="aggregate")
    assert torch.equal(out.sequences, ids)
    start = 1 if kind == "marian" else given["input_ids"].shape[1]
    if kind == "llama":
        assert torch.equal(ids[:, :start], given["input_ids"])
    for row, samples, utility, ranking in zip(ids, out.samples, out.utilities, out.rankings,
                                              strict=True):
        assert sum(sample.count for sample in samples) == 40
        again = minrisk.decode([sample.text for sample in samples], strategy="aggregate",
                               weights=[sample.count for sample in samples])
        assert_close(utility, again.utility)
        assert ranking.best == again.best
        best = samples[again.best]
        assert tuple(row[start:][: len(best.tokens)].tolist()) == best.tokens
        assert set(row[start + len(best.tokens):].tolist()) <= {tiny_models.PAD}
        assert words.decode(best.tokens, skip_special_tokens=True) == best.text


def test_without_a_seed_the_samples_are_those_of_torchs_generator(loaded):
    """As those of `generate` are: fixed by torch.manual_seed, and otherwise new at every call."""
    model, words = loaded["marian"]
    settings = SETTINGS | {"seed": None, "return_dict_in_generate": True}

    def samples():
        found = model.generate(**batch(words), **settings).samples
        return [[(sample.tokens, sample.count) for sample in own] for own in found]

    torch.manual_seed(5)
    first, second = samples(), samples()
    torch.manual_seed(5)
    assert samples() == first
    torch.manual_seed(6)
    assert samples() != first
    assert second != first
    torch.manual_seed(5)
    before = torch.get_rng_state()
    settings["seed"] = 0
    assert samples() == samples()
    assert torch.equal(torch.get_rng_state(), before)


def test_beams_and_returned_sequences_of_the_config_do_not_multiply_the_batch(loaded):
    model, words = loaded["marian"]
    few = model.generate(**batch(words), **SETTINGS)
    beams = model.generate(**batch(words), **SETTINGS | {"do_sample": False, "num_beams": 4})
    three = model.generate(**batch(words), **SETTINGS, num_return_sequences=3)
    assert torch.equal(few, beams)
    assert torch.equal(three[::3][:, : few.shape[1]], few)
    assert len(three) == 6


def test_a_metric_that_needs_the_source_gets_its_text(loaded):
    model, words = loaded["marian"]
    seen = []

    class Spy:
        name = "spy"
        needs_source = True

        def features(self, texts):
            return np.array([[len(text)] for text in texts], float)

        def scores(self, hyps, refs, source=None):
            seen.append(float(source[0, 0]))
            return -np.abs(hyps - refs.T)

    model.generate(**batch(words), **SETTINGS, metric=Spy())
    assert seen == [float(len(text)) for text in TEXTS]


def test_the_callers_configs_stay_as_they_are(loaded):
    model, words = loaded["marian"]
    own = transformers.GenerationConfig(max_length=10, do_sample=True, epsilon_cutoff=0.02,
                                        eos_token_id=2, pad_token_id=0, decoder_start_token_id=0)
    before = own.to_dict(), model.generation_config.to_dict(), model.config.to_dict()
    model.generate(**batch(words), generation_config=own, num_samples=5,
                   custom_generate=minrisk.hf.generate)
    assert before == (own.to_dict(), model.generation_config.to_dict(), model.config.to_dict())


def test_a_pipeline_decodes_too(loaded):
    model, words = loaded["llama"]
    write = pipeline("text-generation", model=model, tokenizer=words, device="cpu")
    [found] = write(TEXTS[0], return_tensors=True, **SETTINGS)
    out = model.generate(**words(TEXTS[0], return_tensors="pt", return_token_type_ids=False),
                         **SETTINGS)
    assert list(found["generated_token_ids"]) == out[0].tolist()


def test_a_model_that_came_from_nowhere_needs_its_tokenizer_bound():
    model, words = tiny_models.model("marian"), tiny_models.tokenizer()
    with pytest.raises(InputError, match=r"functools\.partial"):
        model.generate(**batch(words), **SETTINGS, tokenizer=words)
    bound = partial(minrisk.hf.generate, tokenizer=words)
    assert model.generate(**batch(words), **SETTINGS | {"custom_generate": bound}).shape[0] == 2


@pytest.mark.parametrize(("settings", "wants"), [
    ({"num_samples": 0}, "num_samples .* 0"),
    ({"typical_p": 0.5}, "typical_p"),
    ({"metric": "chrff"}, "'chrf'"),
    ({"strategy": minrisk.Standard(minrisk.ChrF()), "metric": "chrf"}, "metric"),
    ({"logits_processor": [lambda ids, scores: scores]}, "function"),
    ({"encoder_no_repeat_ngram_size": 2}, "encoder_no_repeat_ngram_size"),
])
def test_what_cannot_be_done_is_said(loaded, settings, wants):
    model, words = loaded["marian"]
    with pytest.raises(InputError, match=wants):
        model.generate(**batch(words), **SETTINGS | settings)


def test_examples_in_docstrings_run(loaded):
    model, words = loaded["marian"]
    found = doctest.testmod(minrisk.hf, extraglobs={"model": model, "tokenizer": words})
    assert (found.failed, found.attempted) == (0, 5)


def test_the_module_says_what_is_missing(monkeypatch):
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "minrisk.hf")
    with pytest.raises(minrisk.MissingExtra, match=r"minrisk\[hf\]"):
        importlib.import_module("minrisk.hf")
