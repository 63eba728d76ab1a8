"""Samples of CTranslate2, against the transformers model that was converted for it."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from commands import run
from minrisk._core.errors import InputError, MissingExtra, UnusableError
from minrisk.samplers.ct2 import CTranslate2
from tolerance import assert_close

ctranslate2 = pytest.importorskip("ctranslate2")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore:.*torch_dtype"),
]

SOURCE = "a cat sat on the mat"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[Path, Path]:
    """A tiny random Marian model, as transformers has it and converted."""
    theirs, ours = tmp_path_factory.mktemp("marian"), tmp_path_factory.mktemp("ct2") / "model"
    _tokenizer(theirs)
    vocabulary = len(transformers.MarianTokenizer.from_pretrained(theirs))
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=vocabulary, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16,
        decoder_ffn_dim=16, max_position_embeddings=512, pad_token_id=vocabulary - 1,
        eos_token_id=0, forced_eos_token_id=None, decoder_start_token_id=vocabulary - 1,
        scale_embedding=True, init_std=0.5, activation_function="swish")
    transformers.MarianMTModel(config).save_pretrained(theirs)
    _convert(theirs, ours)
    return theirs, ours


def _tokenizer(folder: Path) -> None:
    words = folder / "words.txt"
    words.write_text("\n".join([SOURCE, "the dog sat down", "cats sit on mats", "a hat"] * 20))
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(words), model_prefix=str(folder / side), vocab_size=24,
            hard_vocab_limit=False, bos_id=-1, unk_id=1, eos_id=0, minloglevel=2)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    names = [*(pieces.id_to_piece(i) for i in range(len(pieces))), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"source_lang": "en", "target_lang": "fr", "tokenizer_class": "MarianTokenizer"}))


def _convert(theirs: Path, ours: Path) -> None:
    from ctranslate2.converters import TransformersConverter

    files = ["source.spm", "target.spm"]
    TransformersConverter(str(theirs), copy_files=files).convert(str(ours))


@pytest.fixture(scope="module")
def model(models):
    """The original, which gives the log-probabilities of the next token."""
    theirs, _ = models
    model = transformers.MarianMTModel.from_pretrained(theirs).eval()
    source = transformers.MarianTokenizer.from_pretrained(theirs)(SOURCE, return_tensors="pt")

    def logprobs(tokens: list[int]) -> np.ndarray:
        start = torch.tensor([[model.config.decoder_start_token_id, *tokens]])
        with torch.no_grad():
            logits = model(**source, decoder_input_ids=start).logits[0].double()
        logits[:, model.config.pad_token_id] = -torch.inf  # never written
        return torch.log_softmax(logits, -1).numpy()

    return logprobs


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    monkeypatch.setenv("MINRISK_THREADS", "1")


def sampler(models, **options) -> CTranslate2:
    return CTranslate2(str(models[1]), **options)


def truncated(probabilities: np.ndarray, temperature=1.0, top_k=0, top_p=1.0) -> np.ndarray:
    """What transformers' warpers make of a distribution, in their order."""
    sharpened = probabilities ** (1 / temperature)
    order = np.argsort(-sharpened)
    kept = sharpened[order] / sharpened.sum()
    kept[top_k or kept.size:] = 0
    kept /= kept.sum()
    kept[np.cumsum(kept) - kept >= top_p] = 0
    result = np.zeros_like(probabilities)
    result[order] = kept / kept.sum()
    return result


@pytest.mark.parametrize("options", [
    {}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 8, "top_p": 0.8},
    {"temperature": 1.5, "top_p": 0.9}], ids=str)
def test_tokens_are_drawn_from_the_model_s_truncated_distribution(models, model, options):
    n = 4000
    [samples] = sampler(models, max_tokens=1, **options).sample([SOURCE], n, seed=1)
    [step] = model([])
    tokens = [sample.tokens[0] if sample.tokens else 0 for sample in samples]  # 0 is the end
    assert_close([sample.logprob for sample in samples], step[tokens], "fp32")
    expected = n * truncated(np.exp(step), **options)
    found = np.bincount(tokens, minlength=step.size)
    assert not found[expected == 0].any()
    large = expected > 5
    statistic = ((found - expected)[large] ** 2 / expected[large]).sum()
    degrees = large.sum() - 1
    assert statistic < degrees + 5 * np.sqrt(2 * degrees) + 5


def test_log_probabilities_are_those_of_the_whole_model(models, model):
    [samples] = sampler(models, top_k=3, temperature=0.7, max_tokens=12).sample([SOURCE], 8)
    for sample in samples:
        tokens = [*sample.tokens, *([0] if len(sample.tokens) < 12 else [])]  # 0 is the end
        total = model(tokens[:-1])[range(len(tokens)), tokens].sum()
        assert_close(sample.logprob, total, "fp32")


def test_the_seed_and_the_place_fix_the_samples_in_any_batch(models):
    short = sampler(models, max_tokens=8)
    _, both = short.sample(["a cat", "the dog"], 5, seed=3)
    [alone] = short.sample(["the dog"], 5, seed=3, indices=[1])
    _, other = short.sample(["a cat", "the dog"], 5, seed=4)
    assert texts(alone) == texts(both) != texts(other)
    assert_close([s.logprob for s in alone], [s.logprob for s in both], "fp32")


def texts(samples) -> list[tuple[str, int]]:
    return [(sample.text, sample.count) for sample in samples]


def test_a_model_is_loaded_once_for_many_sources(models, monkeypatch):
    loaded = []
    load = ctranslate2.Translator
    monkeypatch.setattr(ctranslate2, "Translator",
                        lambda *args, **options: loaded.append(args) or load(*args, **options))
    short = sampler(models, max_tokens=8)
    sources = [f"{SOURCE} {SOURCE[:i]}" for i in range(20)]
    samples = short.sample(sources, 5, seed=3)
    assert len(loaded) == 2  # for sixteen, and for the others
    for index in (0, 7, 15, 16, 19):
        assert short.sample([sources[index]], 5, seed=3, indices=[index]) == [samples[index]]


def test_a_source_that_fails_leaves_no_worker_waiting(models, monkeypatch):
    """A worker that waits would keep the model, and whoever frees it, waiting too."""
    errors = []

    def fail():
        try:
            sampler(models, max_tokens=8).sample([SOURCE] * 3, 5)
        except ZeroDivisionError as error:
            errors.append(error.with_traceback(None))

    monkeypatch.setattr(CTranslate2, "_sample", lambda *_: 1 / 0)
    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert errors


def test_samples_come_in_no_order(models):
    [samples] = sampler(models, max_tokens=8).sample([SOURCE], 50)
    scores = [sample.logprob for sample in samples]
    assert scores != sorted(scores, reverse=True)


def test_a_source_that_is_too_long_is_cut_with_a_warning_or_refused(models):
    with pytest.warns(UserWarning, match="511"):
        sampler(models, max_tokens=1).sample(["cat " * 600], 1)
    with pytest.raises(InputError, match="shorten it"):
        sampler(models, overlong="error").sample(["cat " * 600], 1)


@pytest.mark.parametrize("options", [
    {"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}, {"max_tokens": 0}])
def test_options_that_make_no_sense_are_told(options):
    [(name, value)] = options.items()
    with pytest.raises(InputError, match=f"{name} .* {value}$"):
        CTranslate2("nowhere", **options)


def test_a_folder_that_was_not_converted_is_told(models, tmp_path):
    with pytest.raises(UnusableError, match="ct2-transformers-converter"):
        CTranslate2(str(models[0])).sample([SOURCE], 1)
    with pytest.raises(UnusableError, match="cannot be loaded"):
        sampler(models, dtype="int7").sample([SOURCE], 1)


@pytest.mark.parametrize("package", ["ctranslate2", "sentencepiece"])
def test_without_its_packages_it_says_what_to_install(models, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package}.*minrisk\[ct2\]"):
        sampler(models).sample([SOURCE], 1)


def test_a_truncation_it_lacks_is_an_error_that_names_a_sampler_with_it(models, tmp_path):
    (tmp_path / "in.txt").write_text(SOURCE)
    result = run("sample", tmp_path / "in.txt", "--sampler", "ct2", "--model", models[1],
                 "--epsilon", "0.02")
    assert result.code == 2
    assert "CTranslate2 truncates" in result.err


def test_sample_and_decode_work_with_it(models, tmp_path):
    (tmp_path / "in.txt").write_text(f"{SOURCE}\nthe dog\n")
    common = ["--sampler", "ct2", "--model", models[1], "-n", "20", "--max-tokens", "8"]
    assert run("sample", tmp_path / "in.txt", *common, "-o", tmp_path / "samples.jsonl").code == 0
    best = run("decode", tmp_path / "samples.jsonl", "--format", "text")
    assert best.out == run("translate", tmp_path / "in.txt", *common).out
    assert best.out.count("\n") == 2
