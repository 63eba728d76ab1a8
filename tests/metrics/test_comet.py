"""COMET has the official scores, for every variant of checkpoint, and its algebra is exact."""

from __future__ import annotations

import itertools
import pickle
import resource
import shutil
import warnings
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")
pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")

import minrisk
from comet_models import CHECKPOINTS, DATA, GOLDEN, cast, enter_hub
from commands import run, wait_for
from minrisk._core.groups import Groups, WeightedRows
from minrisk._core.metric import Ability
from minrisk._core.process import progress_listener
from minrisk._torch.tokens import length_batches
from minrisk.metrics.comet import Comet, CometQE, checkpoint
from minrisk.metrics.comet.estimator import Estimator, feed_forward, mean_distance
from minrisk.metrics.comet.pair_blocks import PairProgress, blocks
from minrisk.metrics.comet.pooling import sparsemax
from minrisk.metrics.comet.tensors import mean_embeddings
from minrisk.testing import cases, check_metric, check_strategy
from tolerance import SINGLE, assert_close
from warm import spawn_script_warm

TEXTS = GOLDEN["texts"] + GOLDEN["edges"]
EMBEDDING = [name for name, golden in GOLDEN["variants"].items() if "joint" not in golden]
VARIANTS = [name for name in EMBEDDING if name != "referenceless"]
ONE = "xlmr_mix_sparsemax"


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    enter_hub(tmp_path, monkeypatch)


@cache
def comet(variant: str = ONE, **options) -> Comet:
    """One object for equal options, whose model is loaded once."""
    chosen = {"model": str(CHECKPOINTS / variant), "dtype": "fp32", "device": "cpu"}
    return Comet(**chosen | options)


def quietly(metric: Comet, texts: list[str]):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts that are cut off are wanted here
        return metric.features(texts)


def grid(metric: Comet, source: int = 0):
    """Hypotheses, references and a source of the golden grid."""
    places = GOLDEN["grid"]
    return (quietly(metric, [TEXTS[i] for i in places["hypotheses"]]),
            quietly(metric, [TEXTS[i] for i in places["references"]]),
            quietly(metric, [TEXTS[places["sources"][source]]]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_equal_the_official_ones(variant):
    metric = comet(variant)
    for source, theirs in enumerate(GOLDEN["variants"][variant]["scores"]):
        assert_close(metric.scores(*grid(metric, source)), theirs, "fp32")


@pytest.mark.parametrize("variant", VARIANTS)
def test_awkward_texts_score_as_officially(variant):
    metric, places = comet(variant), GOLDEN["grid"]
    ours = metric.scores(quietly(metric, GOLDEN["edges"]),
                         quietly(metric, [TEXTS[places["references"][0]]]),
                         quietly(metric, [TEXTS[places["sources"][0]]]))
    theirs = np.array(GOLDEN["variants"][variant]["edge_scores"])
    assert_close(ours[:, 0], theirs, "fp32")


@pytest.mark.parametrize("variant", EMBEDDING)
def test_embeddings_equal_the_official_ones(variant):
    metric = comet(variant)
    vectors = metric.vectors(quietly(metric, [TEXTS[i] for i in GOLDEN["embedded"]]))
    assert_close(vectors, GOLDEN["variants"][variant]["embeddings"], "fp32")


@pytest.mark.parametrize("metric", [comet(aggregation="mean"), comet("xlmr_mix_softmax_layernorm")],
                         ids=["mean", "layernorm"])
def test_comet_keeps_the_contract(metric):
    check_metric(metric, cases(count=2), rtol=SINGLE)


@pytest.mark.parametrize("variant", [ONE, "three_hidden"])
def test_expected_features_are_the_mean_of_the_first_layer(variant):
    """Against a loop over the references, with unequal weights."""
    metric = comet(variant)
    hyps, refs, source = grid(metric)
    weights = np.array([1.0, 2.0, 0.0, 4.0, 1.0])
    whole = metric.aggregate(refs, Groups(np.zeros(5, np.intp), weights))
    estimator = metric._scorer.estimator
    mt, ref, src = hyps.base, refs.base, source.base
    first = [sum(w * (estimator.hyp_part(h[None], src) + estimator.ref_part(r[None])
                      + estimator.pair_part(h, r))
                 for w, r in zip(weights / weights.sum(), ref, strict=True)) for h in mt]
    expected = torch.stack([estimator.finish(z)[0] for z in first])
    assert_close(metric.scores(hyps, whole, source)[:, 0], expected.detach().numpy(), "fp32")


def test_the_papers_average_is_of_embeddings():
    metric = comet(aggregation="mean")
    hyps, refs, source = grid(metric)
    groups = Groups(np.array([0, 0, 1, 1, 1]), np.array([1.0, 3.0, 1.0, 1.0, 2.0]))
    averages = metric.aggregate(refs, groups)
    vectors = metric.vectors(refs)
    means = [np.average(vectors[groups.labels == g], axis=0,
                        weights=groups.weights[groups.labels == g]) for g in (0, 1)]
    assert_close(metric.vectors(averages), means, "fp32")
    estimator = metric._scorer.estimator
    ref = torch.tensor(np.array(means), dtype=torch.float32)
    first = (estimator.hyp_part(hyps.base, source.base)[:, None] + estimator.ref_part(ref)[None]
             + estimator.pair_part(hyps.base[:, None], ref[None]))
    assert_close(metric.scores(hyps, averages, source), estimator.finish(first).detach().numpy(),
                 "fp32")


@pytest.mark.parametrize("strategy", ["aggregate", "standard"])
def test_references_may_come_in_shards(strategy):
    """Expected features too: what a shard says of the hypotheses is a sum over its references."""
    metric, weights = comet(), np.arange(1.0, 9.0)
    shards = [minrisk.References(TEXTS[rows], weights[rows]) for rows in (slice(2), slice(2, 8))]
    chosen = {"source": TEXTS[0], "metric": metric, "strategy": strategy}
    found = minrisk.decode_parts(TEXTS[3:9], shards, **chosen)
    whole = minrisk.decode(TEXTS[3:9], TEXTS[:8], weights=weights, **chosen)
    assert_close(found.utility, whole.utility, "fp32")


def test_a_model_is_sent_as_its_options():
    metric = comet()
    quietly(metric, ["loaded now"])
    sent = pickle.loads(pickle.dumps(metric))
    assert sent == metric
    assert set(vars(sent)) == {field.name for field in fields(metric)}


@pytest.mark.parametrize("count", [9, 40])  # added up, and sorted
def test_the_mean_distance_is_that_of_a_loop(count):
    rng = torch.Generator().manual_seed(0)
    mt, refs = torch.randn(7, 5, generator=rng), torch.randn(count, 5, generator=rng)
    refs[3] = refs[4] = mt[2]  # ties with a reference
    weights = torch.rand(count, generator=rng)
    expected = ((mt[:, None] - refs[None]).abs() * weights[None, :, None]).sum(1)
    assert_close(mean_distance(mt, refs, weights), expected, "fp32")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("aggregation", ["expected", "mean"])
def test_aggregates_score_as_loops_over_the_official_estimate(variant, aggregation):
    """Weighted groups against the official network, for both averages."""
    golden = GOLDEN["variants"][variant]["groups"]
    metric = comet(variant, aggregation=aggregation)
    hyps, refs, source = grid(metric)
    groups = Groups(np.array(golden["labels"]), np.array(golden["weights"]))
    found = metric.scores(hyps, metric.aggregate(refs, groups), source)
    assert_close(found, golden[aggregation], "fp32")


@pytest.mark.parametrize("strategy", [
    minrisk.Standard(comet()), minrisk.NByS(comet(), subset=2, seed=3),
    minrisk.AggregateToFine(comet(), keep=3)], ids=lambda s: s.name)
def test_strategies_agree_with_sums_of_official_scores(strategy):
    places, golden = GOLDEN["grid"], GOLDEN["variants"][ONE]
    weights = np.array([2.0, 1.0, 1.0, 3.0, 1.0])
    segment = minrisk.Segment([TEXTS[i] for i in places["hypotheses"]],
                              [TEXTS[i] for i in places["references"]], TEXTS[0], weights)
    scores = np.array(golden["scores"][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranking = strategy.rank([segment])[0]
    utility = scores @ segment.weights
    if strategy.name == "n-by-s":
        candidates = [scores[:, list(pair)] @ (weights[list(pair)] / weights[list(pair)].sum())
                      for pair in itertools.combinations(range(5), 2)]
        nearest = min(candidates, key=lambda c: np.abs(ranking.utility - c).max())
        assert_close(ranking.utility, nearest, "fp32")
    elif strategy.name == "standard":
        assert_close(ranking.utility, utility, "fp32")
    elif strategy.name == "aggregate-to-fine":
        kept = np.flatnonzero(~np.isnan(ranking.utility))
        assert kept.size == 3
        assert_close(ranking.utility[kept], utility[kept], "fp32")


def test_partial_aggregation_is_the_weighted_sum_of_group_scores():
    golden = GOLDEN["variants"][ONE]["groups"]
    labels, weights = np.array(golden["labels"]), np.array(golden["weights"])
    metric, places = comet(), GOLDEN["grid"]
    segment = minrisk.Segment([TEXTS[i] for i in places["hypotheses"]],
                              [TEXTS[i] for i in places["references"]], TEXTS[0], weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (pool,) = minrisk.bind(metric, [segment])
    groups = Groups(labels, segment.weights)
    expected = np.array(golden["expected"]) @ groups.mass
    assert_close(pool.utility_of_averages(groups), expected, "fp32")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_means_of_half_precision_embeddings_are_rounded_once_at_most(dtype):
    """In half precision, 1,024 additions of small shares would end far from the mean."""
    texts = torch.rand(1024, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    metric = comet(aggregation="mean")
    rows = WeightedRows.plain(metric, texts, np.arange(len(texts)))
    weights = np.random.default_rng(0).uniform(1, 2, size=len(texts))
    groups = Groups(np.arange(len(texts)) % 2, weights)
    expected = [np.average(texts.double().numpy()[group::2], axis=0, weights=weights[group::2])
                for group in (0, 1)]
    assert_close(mean_embeddings(rows.average(groups)), expected, "fp32")
    assert_close(metric.vectors(rows.average(groups)), expected, "fp32")


@pytest.mark.parametrize(("dtype", "count"), [("bf16", 510), ("fp16", 2047)])
def test_the_surrogates_shares_are_not_rounded(dtype, count):
    """Copies of a reference are one reference; in half precision these shares add up to more."""
    metric = comet(dtype=dtype)
    hyps, refs, source = grid(metric)
    one, many = refs[np.zeros(1, np.intp)], refs[np.zeros(count, np.intp)]
    expected = metric.surrogate(hyps, one, np.ones(1), source)
    found = metric.surrogate(hyps, many, np.full(count, 1 / count), source)
    assert_close(found.mean, expected.mean, dtype, ulps=0.02)


def test_tf32_leaves_the_callers_precision_alone():
    before = torch.get_float32_matmul_precision()
    metric = comet(dtype="tf32")
    assert_close(metric.scores(*grid(metric)), GOLDEN["variants"][ONE]["scores"][0], "tf32")
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("memory", [1e-9, 1e-5])
def test_little_memory_gives_the_same_utilities(memory):
    """One pair at a time, and a few: blocks that divide nothing evenly."""
    small, metric = comet(memory=memory), comet()
    for pick in ([0, 1, 2, 3, 4, 5], [0, 2, 3]):
        mass = np.arange(1.0, 1 + len(pick))
        found = []
        for own in (small, metric):
            texts, _, source = grid(own)
            found.append(own.utility(texts, texts[np.array(pick)], mass, source))
        assert_close(*found, dtype="fp32")


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 65, 150])
@pytest.mark.parametrize("pairs", [3, 100, 1 << 16])
@pytest.mark.parametrize("hidden", [(8,), (8, 4), (8, 4, 3)])
def test_symmetric_utilities_are_those_of_all_pairs(count, pairs, hidden, monkeypatch):
    """In one block, in strips, and in parts of a row; each pair's features are formed once."""
    torch.manual_seed(0)
    estimator = Estimator.of(feed_forward(6 * 5, hidden, "Tanh", None))
    mass = torch.rand(count, dtype=torch.float64)
    formed, told, pair_part = [], [], Estimator.pair_part
    with torch.inference_mode(), progress_listener(lambda *event: told.append(event)):
        texts = estimator.both(torch.randn(count, 5), torch.randn(1, 5))
        expected = estimator.pair_scores(texts, texts).double() @ mass
        monkeypatch.setattr(Estimator, "pair_part", lambda own, mt, ref: formed.append(
            len(mt)) or pair_part(own, mt, ref))
        progress = PairProgress(count**2, on_cpu=False)
        found = estimator.symmetric_utility(texts, mass, pairs, progress)
    assert_close(found, expected, "fp32", scale=count)
    assert max(formed) <= pairs
    assert sum(formed) == count * (count + 1) // 2
    assert told[-1] == ("pairs scored", count**2, count**2)


def test_blocks_cover_every_cell_once():
    for pairs in (1, 3, 7, 12, 100):
        seen = np.zeros((5, 4), int)
        for rows, columns in blocks(5, 4, pairs):
            seen[rows, columns] += 1
            assert seen[rows, columns].size <= pairs
        assert np.all(seen == 1)


def test_a_model_without_references_judges_as_officially():
    metric = quality_metric()
    places, golden = GOLDEN["grid"], GOLDEN["variants"]["referenceless"]
    for place, theirs in zip(places["sources"], golden["scores"], strict=True):
        hyps = quietly(metric, [TEXTS[i] for i in places["hypotheses"]])
        found = metric.quality(hyps, quietly(metric, [TEXTS[place]]))
        assert_close(found, theirs, "fp32")
    assert Ability.QUALITY in metric.abilities


def quality_metric() -> CometQE:
    return CometQE(model=str(CHECKPOINTS / "referenceless"), dtype="fp32", device="cpu")


def test_a_model_with_references_cannot_judge_without():
    metric = CometQE(model=str(CHECKPOINTS / ONE), dtype="fp32", device="cpu")
    hyps = quietly(metric, TEXTS[:2])
    with pytest.raises(minrisk.InputError, match="'comet'"):
        metric.quality(hyps, hyps[np.array([0])])


def test_cached_embeddings_are_used_again_and_belong_to_their_model(tmp_path):
    kept = {"cache": str(tmp_path / "cache")}
    first = comet(**kept).features(TEXTS[:3]).base
    again = replace(comet(**kept))
    monkey = again._embedder.encoder.tokenizer
    object.__setattr__(again._embedder.encoder, "tokenizer", _Refuses(monkey))
    assert_close(again.features(TEXTS[2::-1]).base.flip(0), first, "fp32")
    other = comet("xlmr_mix_softmax_layernorm", **kept).features(TEXTS[:3]).base
    assert not torch.allclose(other, first)
    mixed = comet(**kept).features([*TEXTS[:2], "new", TEXTS[2]]).base
    assert_close(mixed[[0, 1, 3]], first, "fp32")


class _Refuses:
    """A tokenizer for those who need none; only its vocabulary may be asked for."""

    def __init__(self, inner):
        self.get_vocab = inner.get_vocab

    def __call__(self, *args, **kwargs):
        raise AssertionError("was encoded again")


def test_two_processes_share_a_cache(tmp_path):
    """At the same time, with texts in common; both have every embedding afterwards."""
    script, ready, cache = tmp_path / "script.py", tmp_path / "ready", str(tmp_path / "cache")
    script.write_text(
        "import minrisk.metrics.comet as c\n"
        f"m = c.Comet(model={str(CHECKPOINTS / ONE)!r}, device='cpu', cache={cache!r})\n"
        "m.prepare()\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "for turn in range(20):\n"
        "    m.features([f'text {i}' for i in range(turn, turn + 30)])\n")
    cached, alone = comet(cache=cache), comet()
    other = spawn_script_warm(tmp_path, script)
    wait_for(lambda: not other.is_alive() or ready.exists())
    for turn in range(20):
        cached.features([f"text {i}" for i in range(turn, turn + 30)])
    other.join()
    assert other.exitcode == 0, (tmp_path / "err").read_text()
    texts = [f"text {i}" for i in range(49)]
    assert len(cached._embedder._store.get(texts)) == 49
    assert_close(cached.features(texts).base, alone.features(texts).base, "fp32")


def test_a_cache_that_is_none_is_told(tmp_path):
    (tmp_path / "embeddings.sqlite").write_text("not a database, but long enough to look like one")
    with pytest.raises(minrisk.InputError, match=r"embeddings\.sqlite"):
        comet(cache=str(tmp_path)).features(["a"])


def test_a_long_wait_on_a_cpu_is_announced(monkeypatch):
    clock = iter([0.0, 3.1])
    monkeypatch.setattr("minrisk.metrics.comet.pair_blocks.time.monotonic", lambda: next(clock))
    progress = PairProgress(1000, on_cpu=True)
    with pytest.warns(UserWarning, match="1,000 pairs .* 5 min"):
        progress.advance(10)
    progress.advance(10)  # once is enough


def test_progress_tells_encoding_and_scoring_apart():
    told = []
    metric = comet(tokens=16)
    with progress_listener(lambda *event: told.append(event)):
        texts, _, source = grid(metric)
        metric.utility(texts, texts, np.full(6, 1 / 6), source)
    kinds = {what for what, _, _ in told}
    assert kinds == {"texts encoded", "pairs scored"}
    assert ("texts encoded", 6, 6) in told
    assert told[-1] == ("pairs scored", 36, 36)


def test_a_model_in_the_hub_cache_needs_no_network(tmp_path, monkeypatch):
    """As the hub's own library lays it out, encoder and all; models of Unbabel have short names."""
    in_cache(tmp_path / "hub", "Unbabel/wmt20-comet-da", CHECKPOINTS / ONE)
    in_cache(tmp_path / "hub", "tiny/xlm-roberta", DATA / "encoders" / "xlm-roberta")
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))
    found = replace(comet(model="wmt20-comet-da"))
    assert_close(found.scores(*grid(found)), GOLDEN["variants"][ONE]["scores"][0], "fp32")


def test_a_hub_that_is_away_is_told_with_what_was_tried(tmp_path, monkeypatch):
    for name, value in {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": False,
                        "ENDPOINT": "http://127.0.0.1:1"}.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    from huggingface_hub.utils import close_session

    close_session()  # which knows whether it is offline since it was made
    with pytest.raises(minrisk.InputError, match=r"http://127.0.0.1:1\)"):
        comet(model="owner/model").features(["a"])
    close_session()


def in_cache(cache: Path, name: str, files: Path) -> None:
    folder = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(files, folder / "snapshots" / ("0" * 40))
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)


def test_texts_that_are_cut_off_are_warned_of_once():
    metric = comet("truncating")
    told = "some texts have more than 30 tokens; .* as documents:comet does"
    with pytest.warns(UserWarning, match=told) as one:
        metric.features(["short", "a long story " * 40])
    with pytest.warns(UserWarning, match=told) as other:
        metric.features(["a longer story " * 40, "a long story " * 40, "short", "shorter"])
    assert str(one[0].message) == str(other[0].message)  # which Python and commands show once


def test_batches_hold_what_they_may_and_all_of_it():
    lengths = [3, 50, 7, 7, 120, 1, 3]
    found = list(length_batches(lengths, 21))
    assert sorted(row for rows in found for row in rows) == list(range(7))
    for rows in found:
        assert len(rows) == 1 or len(rows) * max(lengths[r] for r in rows) <= 21


def test_layers_without_weight_are_not_run():
    metric = comet()
    weights = GOLDEN["variants"][ONE]["layer_weights"]
    last = max(i for i, w in enumerate(weights) if w > 0)
    assert last < len(weights) - 1
    assert len(metric._embedder.encoder.model.encoder.layer) == last


def test_sparsemax_is_a_distribution_with_zeros():
    found = sparsemax(torch.tensor([2.0, 1.5, -1.0]))
    assert_close(found, torch.tensor([0.75, 0.25, 0.0]), "fp32")


def test_a_converted_model_scores_the_same(tmp_path):
    out = tmp_path / "converted"
    assert run("comet", "convert", CHECKPOINTS / ONE, out).code == 0
    for name in GOLDEN["hub"]:  # which it needs no more
        (tmp_path / name).unlink()
    assert not list(out.rglob("*.ckpt"))
    metric = comet(model=str(out))
    theirs = GOLDEN["variants"][ONE]["scores"][0]
    assert_close(metric.scores(*grid(metric)), theirs, "fp32")


def test_a_converted_model_has_the_mode_of_other_files(tmp_path):
    out, other = tmp_path / "converted", tmp_path / "other"
    other.mkdir()
    assert run("comet", "convert", CHECKPOINTS / ONE, out).code == 0
    assert out.stat().st_mode == other.stat().st_mode
    modes = {path.stat().st_mode for path in out.rglob("*") if path.is_file()}
    (other / "file").touch()
    assert modes == {(other / "file").stat().st_mode}


def test_a_conversion_overwrites_nothing(tmp_path):
    out = tmp_path / "converted"
    out.mkdir()
    assert run("comet", "convert", CHECKPOINTS / ONE, out).code == 0  # which was empty
    before = (out / "model.safetensors").stat()
    found = run("comet", "convert", CHECKPOINTS / "pool_cls", out)
    assert found.code == 2
    assert "converted: " in found.err
    assert (out / "model.safetensors").stat() == before


def test_a_conversion_is_whole_or_absent(tmp_path):
    """As on a disk that is full: no file may grow beyond a limit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    names = set(tmp_path.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        found = run("comet", "convert", CHECKPOINTS / ONE, tmp_path / "converted")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found.code == 2
    assert "converted: " in found.err
    assert len(found.err.splitlines()) == 1
    assert set(tmp_path.iterdir()) == names


def test_a_checkpoint_file_alone_is_enough(tmp_path):
    file = tmp_path / "model.ckpt"
    file.write_bytes((CHECKPOINTS / ONE / "checkpoints" / "model.ckpt").read_bytes())
    metric = comet(model=str(file))
    theirs = GOLDEN["variants"][ONE]["scores"][0]
    assert_close(metric.scores(*grid(metric)), theirs, "fp32")


def test_the_checkpoint_knows_better_than_the_file_beside_it(tmp_path):
    folder = tmp_path / "model"
    (folder / "checkpoints").mkdir(parents=True)
    file = CHECKPOINTS / ONE / "checkpoints" / "model.ckpt"
    (folder / "checkpoints" / "model.ckpt").write_bytes(file.read_bytes())
    (folder / "hparams.yaml").write_text("class_identifier: regression_metric\npool: max\n")
    assert checkpoint.load(str(folder)).architecture.pool == "avg"


@pytest.mark.parametrize(("model", "message"), [
    ("nowhere", "no such file"), ("owner/absent", "owner/absent"),
    ("/nowhere/at/all", "no such file"), (".", "neither"),
    (str(CHECKPOINTS / "unified"), "together")])
def test_a_model_that_cannot_be_used_is_told(model, message):
    with pytest.raises(minrisk.InputError, match=message):
        comet(model=model).features(["a"])


def test_a_model_without_references_is_told():
    metric = comet("referenceless")
    with pytest.raises(minrisk.InputError, match="references"):
        metric.scores(*grid(metric))


def test_missing_files_of_the_encoder_are_named(tmp_path):
    (tmp_path / "tiny" / "xlm-roberta").unlink()
    with pytest.raises(minrisk.InputError, match="tiny/xlm-roberta"):
        replace(comet()).features(["a"])


def test_an_unknown_pooling_is_told():
    for pool, encoder, message in (("last", "BERT", "found pool 'last', expected one of avg"),
                                   ("default", "BERT", "pool 'default' of BERT, which has a po")):
        with pytest.raises(minrisk.InputError, match=message):
            checkpoint.Architecture.of({"class_identifier": checkpoint.REGRESSION, "pool": pool,
                                        "encoder_model": encoder}, Path("x"))


def test_the_default_pooling_is_the_first_token_of_the_last_layer(tmp_path):
    """Of XLM-R, whatever layers the checkpoint would mix otherwise."""
    folder = tmp_path / "copy"
    shutil.copytree(CHECKPOINTS / ONE, folder)
    path = folder / "checkpoints" / "model.ckpt"
    content = torch.load(path, weights_only=True)
    content["hyper_parameters"]["pool"] = "default"
    torch.save(content, path)
    metric = comet(model=str(folder))
    encoder = metric._embedder.encoder
    [ids] = encoder.tokenize(["a cat"])
    with torch.inference_mode():
        states = encoder.model(torch.as_tensor(ids)[None]).last_hidden_state
    assert_close(metric.vectors(metric.features(["a cat"]))[0], states[0, 0].numpy(), "fp32")


def test_architecture_reads_what_the_official_code_reads():
    spec = checkpoint.Architecture.of(
        {"class_identifier": checkpoint.REGRESSION, "layer_transformation": "sparsemax_patch",
         "hidden_sizes": [4], "optimizer": "AdamW"}, Path("x"))
    assert spec.layer_transformation == "softmax"
    assert spec.hidden_sizes == (4,)


@pytest.mark.parametrize("variant", [ONE, "three_hidden"])
def test_the_surrogate_is_the_tangent_at_the_mean_of_the_first_layer(variant):
    metric = comet(variant)
    hyps, refs, source = grid(metric)
    mass = np.array([1.0, 2.0, 0.0, 4.0, 1.0]) / 8
    metric.scores(hyps, refs, source)  # which makes the estimator in inference mode
    made = metric.surrogate(hyps, refs, mass, source)
    with torch.inference_mode():
        estimator = cast(metric._scorer.estimator, torch.float64)  # or steps would be rounded off
        mt, ref, src = (texts.base.double() for texts in (hyps, refs, source))
        first = (estimator.hyp_part(mt, src)[:, None] + estimator.ref_part(ref)[None]
                 + estimator.pair_part(mt[:, None], ref[None]))
        centre = torch.einsum("hrz,r->hz", first, torch.as_tensor(mass))
        toward = first - centre[:, None]
        step = 1e-4
        tangent = (estimator.finish(centre[:, None] + step * toward)
                   - estimator.finish(centre[:, None] - step * toward)) / (2 * step)
        expected = estimator.finish(centre)[:, None] + tangent
    assert_close(made.at(refs), expected.numpy(), "fp32")
    assert_close(made.at(refs) @ mass, made.mean, "fp32")
    whole = metric.aggregate(refs, Groups(np.zeros(5, np.intp), mass))
    assert_close(made.mean, metric.scores(hyps, whole, source)[:, 0], "fp32")


def test_a_corrected_surrogate_is_standard_with_all_pairs_and_the_aggregate_with_none():
    metric = comet()
    texts = [TEXTS[i] for i in GOLDEN["grid"]["hypotheses"]]
    weights = [*range(len(texts)), 3, 2]
    segment = minrisk.Segment(texts + texts[:2], source=TEXTS[0], weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [none], [every] = (minrisk.ControlVariate(metric, budget).rank([segment])
                           for budget in (1e-9, 1.0))
        exact = minrisk.Standard(metric).rank([segment])[0].utility
        whole = minrisk.Aggregate(metric).rank([segment])[0]
    assert_close(every.utility, exact, "fp32")
    np.testing.assert_array_equal(none.order, whole.order)
    assert_close(none.utility[none.best], whole.utility.max(), "fp32")
    assert np.abs(whole.utility - exact).max() > 1e-4


def test_clusters_of_embeddings_are_averaged():
    metric = comet()
    texts = [TEXTS[i] for i in GOLDEN["grid"]["hypotheses"]]
    check_strategy(minrisk.Centroid(metric, 2), [minrisk.Segment(texts, source=TEXTS[0])])
