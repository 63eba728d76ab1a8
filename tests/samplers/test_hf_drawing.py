"""Samples of Hugging Face models: the right distribution, in any batch, for less work."""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")

import tiny_models
from minrisk._core.errors import InputError, UnusableError
from minrisk._core.process import progress_listener
from minrisk._core.token_confidence import lowest_and_tail
from minrisk.samplers.hf import Transformers, fast_decoder, prefix_cache, prefixes, truncation
from minrisk.samplers.hf.bart import not_supported_reasons as fast_reasons
from minrisk.samplers.hf.beam_search import beam_search
from minrisk.samplers.hf.causal import not_supported_reasons as causal_reasons
from minrisk.samplers.hf.engine import SamplingEngine
from minrisk.samplers.hf.fast_decoder import FastDecoder
from minrisk.samplers.hf.generic_decoder import CausalDecoder, token_bytes
from minrisk.samplers.hf.prefix_cache import PrefixCache
from minrisk.samplers.hf.prefixes import TokenizedPrompt
from minrisk.samplers.hf.truncation import FullVocabulary, Truncation
from tolerance import assert_close

pytestmark = [pytest.mark.usefixtures("one_thread"),
              pytest.mark.filterwarnings("ignore:.*samples so far were cut")]  # limits are low here
KINDS = [*tiny_models.SEQ2SEQ, *tiny_models.CAUSAL]
SOURCES = ["the cat sat on a mat", "the dog", "it ran to a red mat"]
PROMPTS = [TokenizedPrompt(source, ())
           for source in ((6, 7, 8, 2), (6, 12, 2), (15, 13, 14, 9, 10, 2))]


def prompts(model) -> list[TokenizedPrompt]:
    if model.config.is_encoder_decoder:
        start = model.generation_config.decoder_start_token_id
        return [TokenizedPrompt(prompt.source, (start,)) for prompt in PROMPTS]
    return [TokenizedPrompt((), prompt.source[:-1]) for prompt in PROMPTS]


def engine(model, limit: int = 6, rows: int | None = None, memory: float | None = None,
           **options) -> SamplingEngine:
    return SamplingEngine(model, model.generation_config, Truncation(**options), limit, rows,
                          memory)


def all_logs(model, prompt: TokenizedPrompt, texts: list[tuple[int, ...]]):
    """(N, T + 1, V) log-probabilities at every position of texts of one length, without a cache."""
    given = torch.tensor([[*prompt.prefix, *text] for text in texts])
    if prompt.source:
        source = torch.tensor([prompt.source] * len(texts))
        out = model(input_ids=source, attention_mask=torch.ones_like(source),
                    decoder_input_ids=given, use_cache=False)
    else:
        out = model(input_ids=given, use_cache=False)
    return out.logits[:, len(prompt.prefix) - 1 :].detach().double().log_softmax(-1)


def token_logs(model, prompt: TokenizedPrompt, tokens: tuple[int, ...]) -> list[float]:
    [logs] = all_logs(model, prompt, [tokens])
    return [float(logs[i, token]) for i, token in enumerate(tokens)]


def scored(model, prompt: TokenizedPrompt, tokens: tuple[int, ...]) -> float:
    return sum(token_logs(model, prompt, tokens))


def chi_square(observed: dict, expected: dict) -> float:
    """The z-score of Pearson's statistic, with rare outcomes pooled."""
    n = sum(observed.values())
    common = [key for key, p in expected.items() if p * n >= 5]
    rest = 1 - sum(expected[key] for key in common)
    seen = sum(observed.get(key, 0) for key in common)
    pairs = [(observed.get(key, 0), expected[key] * n) for key in common]
    if rest * n >= 5:
        pairs.append((n - seen, rest * n))
    else:
        assert n - seen <= 30
    statistic = sum((o - e) ** 2 / e for o, e in pairs)
    freedom = len(pairs) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def enumerated(model, prompt: TokenizedPrompt, limit: int, cut) -> dict[tuple[int, ...], float]:
    """The probability of every text, by looking at all of them."""
    ended, going = {}, {(): 1.0}
    for length in range(1, limit + 1):
        logs = all_logs(model, prompt, list(going))[:, -1]
        logs[:, tiny_models.PAD] = -math.inf
        found = {(*text, token): mass * p
                 for (text, mass), row in zip(going.items(), cut(logs).softmax(-1), strict=True)
                 for token, p in enumerate(row.tolist()) if p}
        over = {text for text in found if text[-1] == tiny_models.EOS or length == limit}
        ended |= {text: found[text] for text in over}
        going = {text: mass for text, mass in found.items() if text not in over}
    return ended


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.05, "temperature": 1.3}], ids=str)
@pytest.mark.parametrize("kind", ["marian", "t5"])
def test_samples_have_the_distribution_that_enumeration_gives(kind, options):
    model = tiny_models.model(kind)
    model.generation_config.forced_eos_token_id = None
    [prompt] = prompts(model)[:1]
    [drawn] = engine(model, 3, **options).sample([prompt], 8000, 1, [0])

    def cut(logs):
        logs = logs / options.get("temperature", 1.0)
        probs = logs.softmax(-1)
        return torch.where(probs >= options.get("epsilon", 0.0), logs, -math.inf)

    expected = enumerated(model, prompt, 3, cut)
    assert_close(sum(expected.values()), 1)
    assert abs(chi_square({d.tokens: d.count for d in drawn}, expected)) < 4
    for one in drawn:
        assert_close(one.truncated_logprob, math.log(expected[one.tokens]), "fp32")


def test_counts_are_those_of_independent_draws():
    """Two samples agree as often as two independent ones: the joint distribution, not the mean."""
    model = tiny_models.model("marian")
    [prompt] = prompts(model)[:1]
    made = engine(model, 2, epsilon=0.02)
    [many] = made.sample([prompt], 8000, 0, [0])
    agree = sum((d.count / 8000) ** 2 for d in many)
    runs = made.sample([prompt] * 2000, 2, 3, range(2000))
    same = sum(len(run) == 1 for run in runs) / 2000
    assert abs(same - agree) < 4 * math.sqrt(agree * (1 - agree) / 2000)


@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_samples_have_the_distribution_of_generate(kind):
    """First tokens, lengths and pairs of tokens, each as often as in transformers' own samples."""
    model = tiny_models.model(kind)
    [prompt] = prompts(model)[:1]
    n, limit = 4000, 6
    made = engine(model, limit, epsilon=0.03, top_k=8, temperature=0.9)
    [drawn] = made.sample([prompt], n, 5, [0])
    torch.manual_seed(0)
    given = {"input_ids": torch.tensor([prompt.source or prompt.prefix])}
    theirs = model.generate(**given, attention_mask=torch.ones_like(given["input_ids"]),
                            do_sample=True, epsilon_cutoff=0.03, top_k=8, temperature=0.9,
                            num_return_sequences=n, max_new_tokens=limit, max_length=None)
    start = len(prompt.prefix)
    theirs = [cut_at_end(row) for row in theirs[:, start:].tolist()]
    ours = [d.tokens for d in drawn for _ in range(d.count)]
    for view in (lambda t: t[:1], lambda t: t[:2], len, lambda t: t[-2:]):
        assert two_sample(Counter(map(view, ours)), Counter(map(view, theirs))) < 4


def cut_at_end(tokens: list[int]) -> tuple[int, ...]:
    place = tokens.index(tiny_models.EOS) + 1 if tiny_models.EOS in tokens else len(tokens)
    return tuple(tokens[:place])


def two_sample(one: Counter, other: Counter) -> float:
    """The z-score of the chi-square statistic of two samples of one size."""
    pairs = [(one[key], other[key]) for key in one.keys() | other.keys()
             if one[key] + other[key] >= 10]
    freedom = max(1, len(pairs) - 1)
    return (sum((a - b) ** 2 / (a + b) for a, b in pairs) - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_scores_its_samples_as_without_a_cache(kind):
    model = tiny_models.model(kind)
    given = prompts(model)
    sampling = replace(engine(model, 5), window=2)
    for prompt, drawn in zip(given, sampling.sample(given, 8, 0, range(3)), strict=True):
        assert sum(d.count for d in drawn) == 8
        assert len(drawn) > 3
        for one in drawn:
            logs = token_logs(model, prompt, one.tokens)
            assert_close(one.logprob, sum(logs), "fp32")
            assert_close([one.lowest_logprob, one.tail_logprob], lowest_and_tail(logs, 2), "fp32")


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.05}, {"top_k": 3, "temperature": 0.7},
                                     {"top_p": 0.9}], ids=str)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["marian", "t5", "llama", "gemma2"])
def test_self_certainty_is_of_the_whole_distribution(kind, dtype, options):
    """Before tokens are banned or left out: the divergence from the uniform distribution."""
    model = tiny_models.model(kind)
    model.generation_config.suppress_tokens = [7, 9]
    model = model.to({"fp32": torch.float32, "bf16": torch.bfloat16}[dtype])
    sampling = engine(model, 5, **options)
    given = prompts(model)
    for prompt, drawn in zip(given, sampling.sample(given, 8, 0, range(3)), strict=True):
        for one in drawn:
            [logs] = all_logs(model, prompt, [one.tokens])
            uniform = torch.full_like(logs[:-1], -math.log(logs.shape[1]))
            apart = (uniform.exp() * (uniform - logs[:-1])).sum(1)
            assert_close(one.certainty, apart.mean(), dtype)


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.05}], ids=str)
def test_a_model_that_rules_out_a_token_has_no_self_certainty(options):
    """It is infinite, unlike where only the generation config bans the token."""
    model = tiny_models.model("marian")
    with torch.no_grad():
        model.final_logits_bias[:, 8] = -math.inf
    given = prompts(model)
    for drawn in engine(model, 5, **options).sample(given, 8, 0, range(3)):
        assert {one.certainty for one in drawn} == {math.inf}


@pytest.mark.parametrize("kind", KINDS)
def test_samples_do_not_depend_on_the_batch(kind):
    model = tiny_models.model(kind)
    given = prompts(model)
    together = engine(model).sample(given, 20, 7, [3, 1, 4])
    alone = [engine(model).sample([prompt], 20, 7, [place])[0]
             for prompt, place in zip(given, [3, 1, 4], strict=True)]
    small = engine(model, rows=7).sample(given, 20, 7, [3, 1, 4])
    assert counts(together) == counts(alone) == counts(small)
    assert counts(together) != counts(engine(model).sample(given, 20, 8, [3, 1, 4]))


@pytest.mark.parametrize(("changes", "batches"), [
    ({}, 1), ({"repetition_penalty": 5.0}, 1), ({"no_repeat_ngram_size": 2}, 3)], ids=str)
def test_prompts_of_different_lengths_share_a_batch(changes, batches, monkeypatch):
    """Except where a rule depends on the order of tokens, which padding would change."""
    model = tiny_models.model("llama")
    for name, value in changes.items():
        setattr(model.generation_config, name, value)
    given, seen = prompts(model), []
    assert len({len(prompt.prefix) for prompt in given}) == 3
    run = SamplingEngine._run
    monkeypatch.setattr(SamplingEngine, "_run", lambda self, jobs, *more: (
        seen.append(len(jobs)), run(self, jobs, *more))[1])
    together = engine(model).sample(given, 20, 7, range(3))
    assert len(seen) == batches
    assert counts(together) == counts([engine(model).sample([prompt], 20, 7, [place])[0]
                                       for place, prompt in enumerate(given)])


def test_long_samples_do_not_depend_on_the_batch_or_on_those_that_ended(monkeypatch):
    """Random numbers are generated for some steps at a time, for jobs that go on."""
    model = tiny_models.model("marian")
    model.generation_config.forced_eos_token_id = None
    given = prompts(model)
    together = engine(model, 31).sample(given, 60, 7, range(3))
    lengths = {len(d.tokens) for own in together for d in own}
    assert min(lengths) < 16 < max(lengths)
    assert counts(together) == counts([engine(model, 31).sample([prompt], 60, 7, [place])[0]
                                       for place, prompt in enumerate(given)])
    monkeypatch.setattr(prefixes, "_MAX_ENDED", 16)
    assert counts(engine(model, 31).sample(given, 60, 7, range(3))) == counts(together)


def counts(drawn) -> list[list[tuple[tuple[int, ...], int]]]:
    return [[(d.tokens, d.count) for d in own] for own in drawn]


@pytest.mark.parametrize("kind", ["marian", "t5", "llama"])
def test_too_little_memory_splits_the_work(kind):
    model = tiny_models.model(kind)
    given = prompts(model)
    whole = engine(model, 4).sample(given, 20, 0, range(3))
    for memory in (6000.0, 1.0):  # less than one batch takes, less than one sample takes
        small = engine(model, 4, memory=memory)
        assert counts(small.sample(given, 20, 0, range(3))) == counts(whole)


def test_memory_that_is_too_small_for_one_sample_ends_the_sampling(monkeypatch):
    def fail(*args):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(FastDecoder, "start", fail)
    model = tiny_models.model("marian")
    with pytest.raises(torch.cuda.OutOfMemoryError):
        engine(model).sample(prompts(model), 4, 7, range(3))


@pytest.mark.parametrize("options", [{"top_k": 1}, {"temperature": 1e-6}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_likeliest_tokens_are_those_of_greedy_search(kind, options):
    if kind == "fsmt" and transformers.__version__ < "5":
        pytest.skip("transformers 4 forgets FSMT's positions in its cache")
    model = tiny_models.model(kind)
    given = prompts(model)
    best = beam_search(model, model.generation_config, given, 1, 1, 8)
    ours = engine(model, 8, **options).sample(given, 3, 0, range(3))
    for [one], [other] in zip(ours, best, strict=True):
        assert (one.tokens, one.count) == (other.tokens, 3)
        assert_close(one.logprob, other.logprob, "fp32")
        assert_close(one.truncated_logprob, 0, "fp32", scale=1)


WARPERS = {"temperature": "TemperatureLogitsWarper", "top_k": "TopKLogitsWarper",
           "top_p": "TopPLogitsWarper", "min_p": "MinPLogitsWarper",
           "epsilon": "EpsilonLogitsWarper", "eta": "EtaLogitsWarper"}
VALUES = {"temperature": (0.5, 1.7), "top_k": (1, 5, 300), "top_p": (0.3, 0.95),
          "min_p": (0.05,), "epsilon": (0.02, 3e-4), "eta": (0.02, 1e-3)}
CHOICES = [{name: value} for name, values in VALUES.items() for value in values]
CHOICES += [dict(zip(WARPERS, values, strict=True))
            for values in itertools.product((0.7, 1.4), (50,), (0.9,), (0.01,), (0.01,), (0.01,))]
CHOICES += [{"top_p": 0.9, "epsilon": 0.02}, {"top_k": 20, "eta": 0.01}, {"min_p": 0.1, "eta": 0.1}]


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_truncations_are_those_of_transformers(options):
    torch.manual_seed(0)
    scores = torch.randn(40, 600) * torch.linspace(0.1, 6, 40)[:, None]
    scores[3] = scores[3].round()  # many ties
    scores[4, 5:] = -math.inf
    theirs = scores
    for name in WARPERS:
        if name in options:
            theirs = getattr(transformers, WARPERS[name])(options[name])(None, theirs)
    found = Truncation(**options)(*[scores.log_softmax(1)] * 2, torch.zeros(40, 1))
    ours = possible(found, scores)
    theirs = theirs.log_softmax(-1)
    if "top_p" in options:  # of equal tokens, it is for the sort to say which come first
        ours, theirs = ours.sort().values, theirs.sort().values
    assert_close(ours, theirs, "fp32")


def possible(found, scores):
    """(R, V) the log-probabilities of drawing."""
    if isinstance(found, FullVocabulary):
        return found.scores
    tokens, logs, _ = found.table.unbind(2)
    if (tokens < 0).any():
        return possible(found.longer(), scores)
    return torch.full_like(scores, -math.inf).scatter(1, tokens.long(), logs)


@pytest.mark.parametrize(("options", "wants"), [
    ({}, [0, 0, 2, 0, 1, 1]), ({"min_p": 1e-9}, [0, 0, 2, 1, 1, 0])], ids=str)
def test_drawing_inverts_the_cumulative_distribution(options, wants):
    """Of the vocabulary in its order, or of the likeliest tokens first."""
    logs = torch.tensor([[0.51, 0.0, 0.49], [0.25, 0.75, 0.0]]).log()
    found = Truncation(**options)(logs, logs, torch.tensor([[0.0], [-1.0]])).sample(
        torch.tensor([0.0, 0.5099, 0.5101, 1.2, 1.26, 2 - 2**-32], dtype=torch.float64))
    assert found.columns[:, 0].tolist() == wants
    chosen = [float(logs[row, token]) for row, token in zip([0, 0, 0, 1, 1, 1], wants, strict=True)]
    assert_close(found.columns[:, 1], chosen, "fp32")
    assert_close(found.columns[:, 2], np.add(chosen, [0, 0, 0, -1, -1, -1]), "fp32")


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1500])
def test_blocks_of_a_large_vocabulary_do_not_change_what_is_drawn(size):
    """Also after a row that is not finite, and where most tokens have a probability of 0."""
    scores = torch.randn(3, size, generator=torch.Generator().manual_seed(size)) * 3
    scores[:, size // 3 : -1] = -math.inf
    scores[0] = math.nan
    logs = scores.log_softmax(1)
    rows = torch.tensor([1, 2]).repeat_interleave(200)
    uniforms = torch.linspace(0, 1 - 2**-32, 200, dtype=torch.float64).repeat(2)
    drawn = Truncation()(logs, logs, torch.zeros(3, 1)).sample(rows + uniforms)
    sums = logs.double().exp().cumsum(1)[rows]
    places = torch.searchsorted(sums / sums[:, -1:], uniforms[:, None], right=True)[:, 0]
    assert drawn.rows.tolist() == rows.tolist()
    tokens = drawn.columns[:, 0].long()
    assert (tokens == places).float().mean() > 0.99  # others lie at the edge of a token, rounded
    assert logs[rows, tokens].isfinite().all()


def test_a_list_that_is_too_short_is_made_again():
    logs = torch.linspace(0, 0.1, 5000).repeat(2, 1).log_softmax(1)
    logs[0, 1:] = -math.inf
    candidates = Truncation(top_p=0.9)(logs, logs, torch.zeros(2, 1))
    uniforms = torch.tensor([0.5, 1.0, 1.9999], dtype=torch.float64)
    assert candidates.sample(uniforms).columns[:, 0].tolist() == [0, -1, -1]
    [first, second, third] = candidates.longer().sample(uniforms).columns[:, 0].tolist()
    assert (first, second) == (0, 4999)
    assert 450 < third < 550


@pytest.mark.parametrize("options", [{"top_p": 0.9}, {"top_p": 0.9, "epsilon": 0.02},
                                     {"min_p": 0.01}], ids=str)
@pytest.mark.parametrize("kind", ["marian", "gpt2"])
def test_lists_of_any_length_give_the_same_samples(kind, options, monkeypatch):
    model = tiny_models.model(kind)
    whole = engine(model, **options).sample(prompts(model), 40, 3, range(3))
    monkeypatch.setattr(truncation, "_FIRST_LIST_TOKENS", 2)
    assert counts(engine(model, **options).sample(prompts(model), 40, 3, range(3))) == counts(whole)


def test_stop_strings_end_samples_from_lists_of_any_length(tmp_path, monkeypatch):
    sampler = Transformers(tiny_models.save(tmp_path, "llama"), device="cpu", top_p=0.9,
                           max_tokens=6, stop='["mat", "cat\\n"]')
    whole = sampler.sample(["the cat"], 40, seed=3)
    assert any(sample.finish_reason == "stop" for sample in whole[0])
    monkeypatch.setattr(truncation, "_FIRST_LIST_TOKENS", 2)
    again = sampler.sample(["the cat"], 40, seed=3)
    for some, others in zip(whole, again, strict=True):
        assert [(own.tokens, own.count, own.finish_reason) for own in some] == [
            (own.tokens, own.count, own.finish_reason) for own in others]


def test_threads_may_share_a_causal_model():
    """Whose attention function is replaced for each step of one of them."""
    model = tiny_models.model("llama")
    given = prompts(model)
    alone = engine(model, 12).sample(given, 20, 3, range(3))
    with ThreadPoolExecutor(3) as threads:
        found = threads.map(lambda _: engine(model, 12).sample(given, 20, 3, range(3)), range(9))
        assert all(counts(drawn) == counts(alone) for drawn in found)


@pytest.mark.parametrize(("kind", "attention"), [("llama", "sdpa"), ("llama", "eager"),
                                               ("gemma2", "eager")])
def test_other_threads_see_the_models_own_attention_during_a_step(kind, attention):
    """Beams, decoders that know nothing of shared prompts, and batches with padding."""
    model = tiny_models.model(kind)
    model.set_attn_implementation(attention)
    given = prompts(model)
    tokens = torch.tensor([[0, 0, 6, 7, 8, 9], [6, 7, 8, 9, 10, 11]])

    @torch.inference_mode()
    def found():
        beams = beam_search(model, model.generation_config, given, 2, 2, 4)
        decoder = CausalDecoder(model)
        logits = [decoder._run(tokens[1:, :4], None), decoder._run(tokens[1:, 4:], decoder._cache),
                  model(input_ids=tokens, attention_mask=tokens.ne(0).long()).logits[tokens > 0]]
        return [one.tokens for own in beams for one in own], torch.cat(logits)

    meanwhile = []

    def interrupt(*_):
        if model.config._attn_implementation != attention and not meanwhile:
            meanwhile.append(None)  # for it is called from there as well
            meanwhile[0] = thread.submit(found).result(60)

    alone, drawn = found(), engine(model, 4).sample(given, 20, 3, range(3))
    last = model.model.layers[-1]
    with ThreadPoolExecutor(1) as thread, last.register_forward_pre_hook(interrupt):
        assert counts(engine(model, 4).sample(given, 20, 3, range(3))) == counts(drawn)
    [(beams, logits)] = meanwhile
    assert beams == alone[0]
    assert_close(logits, alone[1], "fp32")
    assert model.config._attn_implementation == attention


RULES = {
    "forced beginning": {"forced_bos_token_id": 5},
    "suppressed": {"suppress_tokens": [7, 8, 9]},
    "suppressed at first": {"begin_suppress_tokens": [2, 7]},
    "bad words": {"bad_words_ids": [[0], [7, 8], [9]]},
    "no repetition": {"no_repeat_ngram_size": 1},
    "punished repetition": {"repetition_penalty": 5.0},
    "least length": {"min_new_tokens": 4},
    "biased": {"sequence_bias": [[[7], 5.0]]},
    "decay": {"exponential_decay_length_penalty": (2, 2.0)},
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_the_generation_config_is_obeyed_as_by_generate(kind, name):
    """Greedily, token by token, and in what is possible at all."""
    model = tiny_models.model(kind)
    for setting, value in RULES[name].items():
        setattr(model.generation_config, setting, value)
    given = prompts(model)
    for prompt, [ours] in zip(given, engine(model, 8, top_k=1).sample(given, 2, 0, range(3)),
                              strict=True):
        tokens = torch.tensor([prompt.source or prompt.prefix])
        [theirs] = model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens),
                                  do_sample=False, max_new_tokens=8, max_length=None).tolist()
        assert ours.tokens == cut_at_end(theirs[len(prompt.prefix):])


def test_a_text_is_forced_to_end_at_the_limit():
    model = tiny_models.model("marian")
    model.generation_config.min_new_tokens = 3
    [drawn] = engine(model, 4).sample(prompts(model)[:1], 50, 0, [0])
    assert {d.tokens[-1] for d in drawn} == {tiny_models.EOS}
    assert max(len(d.tokens) for d in drawn) == 4
    assert min(len(d.tokens) for d in drawn) == 4


CAUSAL = ["llama", "qwen", "gemma2", "mistral"]


@pytest.mark.parametrize("kind", ["marian", "fsmt", "m2m", "mbart", "bart", *CAUSAL])
def test_the_fast_decoder_draws_what_the_generic_one_draws(kind, monkeypatch):
    """Also with the padding token, which has no position in some models."""
    if kind == "fsmt" and transformers.__version__ < "5":
        pytest.skip("transformers 4 forgets FSMT's positions in its cache")
    model = tiny_models.model(kind)
    if kind != "fsmt":  # whose own positions after padding depend on whether there is a cache
        model.generation_config.bad_words_ids = None
    given = prompts(model)
    reasons = causal_reasons if kind in CAUSAL else fast_reasons
    assert reasons(model) == []
    fast = engine(model).sample(given, 60, 2, range(3))
    monkeypatch.setattr(SamplingEngine, "_not_supported_reasons", lambda self, tokens: ["told"])
    slow = engine(model).sample(given, 60, 2, range(3))
    assert any(tiny_models.PAD in d.tokens[:-1] for own in fast for d in own) == (kind != "fsmt")
    assert counts(fast) == counts(slow)
    for own, others in zip(fast, slow, strict=True):
        assert_close([d.logprob for d in own], [d.logprob for d in others], "fp32")


def test_layers_that_see_a_window_are_run_as_they_are_where_texts_are_longer():
    model = tiny_models.model("gemma")
    long, short = (engine(model, limit)._not_supported_reasons(limit + 3) for limit in (20, 1))
    assert (long, short) == (["some layers attend to the last 4 of 23 tokens only"], [])


def test_prompts_are_held_once_for_all_of_their_samples():
    """The memory that one prompt and the new tokens take is enough for all samples at a time."""
    model = tiny_models.model("llama")
    given = [TokenizedPrompt((), tuple(range(6, 16)) * 5)]
    size = token_bytes(model)
    small = engine(model, 4, 8, float(50 + 8 * 4) * size)
    with mock.patch.object(FastDecoder, "start", autospec=True,
                           side_effect=FastDecoder.start) as start:
        small.sample(given, 8, 0, [0])
    assert start.call_count == 1


def test_the_attention_function_of_a_model_is_its_own_again():
    model = tiny_models.model("llama")
    before = model.config._attn_implementation
    engine(model).sample(prompts(model)[:1], 3, 0, [0])
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_weights_that_have_changed_are_the_ones_that_are_used(kind, counted, monkeypatch):
    """Whether or not torch counts changes, by an attribute that is private."""
    def gone(tensor):
        raise AttributeError

    if not counted:
        monkeypatch.setattr(torch.Tensor, "_version", property(gone), raising=False)
    model = tiny_models.model(kind)
    given = prompts(model)
    before = engine(model).sample(given, 20, 0, range(3))
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(0.5)
    after, new = (engine(own).sample(given, 20, 0, range(3))
                  for own in (model, copy.deepcopy(model)))
    assert counts(after) == counts(new) != counts(before)


def test_the_fast_decoder_says_why_it_cannot():
    model = tiny_models.model("t5")
    assert causal_reasons(tiny_models.model("gpt2"))[0].startswith("gpt2 is not one of llama")
    assert fast_reasons(model) == ["t5 is not one of bart, mbart, marian, m2m_100, fsmt"]
    assert "trained" in fast_reasons(tiny_models.model("marian").train())[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("options", [{"epsilon": 0.02}, {"top_p": 0.9}, {}], ids=str)
def test_graphs_draw_what_the_cpu_draws(options):
    model = tiny_models.model("marian")
    given = prompts(model)
    plain = engine(model, 12, **options).sample(given, 50, 3, range(3))
    made = engine(model.to("cuda"), 12, **options)
    for _ in range(2):
        assert counts(made.sample(given, 50, 3, range(3))) == counts(plain)


@pytest.mark.parametrize("beams", [5, 25])
def test_beams_are_those_of_generate(tmp_path, beams):
    sampler = Transformers(tiny_models.save(tmp_path, "bart"), device="cpu", beams=beams,
                           max_tokens=6)
    found = sampler.sample(SOURCES, 3)
    model = tiny_models.model("bart")
    for text, own in zip(SOURCES, found, strict=True):
        given = tiny_models.tokenizer()(text, return_tensors="pt", return_token_type_ids=False)
        theirs = model.generate(**given, num_beams=beams, num_return_sequences=3,
                                max_new_tokens=6, max_length=None)
        assert [s.tokens for s in own] == [cut_at_end(row[1:]) for row in theirs.tolist()]
        prompt = TokenizedPrompt(tuple(given["input_ids"][0].tolist()), (2,))
        for sample in own:
            assert_close(sample.logprob, scored(model, prompt, sample.tokens), "fp32")
            assert sample.truncated_logprob is None


@pytest.mark.parametrize("setting", [{"force_words_ids": [[6]]}, {"cache_implementation": "none"}])
def test_a_generation_config_that_allows_no_beam_search_is_told(setting):
    model = tiny_models.model("marian")
    for name, value in setting.items():
        setattr(model.generation_config, name, value)
    with pytest.raises(UnusableError, match="beam search"):
        beam_search(model, model.generation_config, prompts(model)[:1], 2, 2, 4)


def spoil(model, word: int, value: float) -> None:
    """The states of every text with this word are no numbers."""
    def hook(module, args, kwargs, output):
        tokens = args[0] if args else kwargs["input_ids"]
        output.last_hidden_state[(tokens == word).any(1)] = value

    part = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    part.register_forward_hook(hook, with_kwargs=True)


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.02}, {"top_p": 0.9}], ids=str)
@pytest.mark.parametrize("kind", ["marian", "t5", "gpt2"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_told(kind, options, value):
    """For the source of which they are, wherever it stands among good ones."""
    model = tiny_models.model(kind)
    spoil(model, tiny_models.WORDS.index("dog"), value)
    good, bad, other = prompts(model)
    if kind == "gpt2":  # which is given texts of one length together
        good, other = (replace(bad, prefix=(6, word)) for word in (7, 8))
    for given in itertools.permutations([good, bad, other]):
        found = f"source {10 + given.index(bad) + 1}: the model's logits are not numbers"
        with pytest.raises(InputError, match=found):
            engine(model, **options).sample(given, 7, 0, range(10, 13))


def test_a_setting_that_needs_more_than_a_prefix_is_refused():
    model = tiny_models.model("marian")
    model.generation_config.guidance_scale = 2.0
    with pytest.raises(InputError, match="guidance_scale"):
        engine(model).sample(prompts(model), 2, 0, range(3))


@pytest.mark.parametrize("rows", [50, 500])
def test_progress_is_told_while_a_batch_is_drawn(rows):
    model = tiny_models.model("marian")
    told = []
    with progress_listener(lambda *said: told.append(said)):
        engine(model, limit=6, rows=rows).sample(prompts(model), 50, 0, range(3))
    assert {(what, total) for what, _, total in told} == {("samples", 150)}
    ended = [done for _, done, _ in told]
    assert ended == sorted(ended)
    assert len(ended) == 6 * len(range(0, 150, rows))  # at every token
    assert {*ended} - {0, 50, 100, 150}
    assert ended[-1] == 150


@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_a_kv_cache_grows_only_where_memory_is_scarce(kind, monkeypatch):
    model = tiny_models.model(kind)
    grown, grow = [], PrefixCache._grow
    monkeypatch.setattr(PrefixCache, "_grow",
                        lambda cache, slots: (grown.append(slots), grow(cache, slots)))
    monkeypatch.setattr(prefix_cache, "_MIN_SLOTS", 1)
    monkeypatch.setattr(fast_decoder, "_FIRST_STEPS", 2)
    needed = 16 * 12 * token_bytes(model)

    def sample(memory: float) -> list:
        [drawn] = engine(model, 12, 16, memory).sample(prompts(model)[:1], 16, 3, [0])
        return [(one.tokens, one.count) for one in drawn]

    whole = sample(20 * needed)
    assert not grown
    assert sample(2 * needed) == whole
    assert grown
