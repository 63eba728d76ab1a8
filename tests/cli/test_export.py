"""`minrisk export`: rankings as training data that trainers read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from generators import text_lists
from minrisk import Ranking, Segment
from minrisk.io.writers import TrainingRecipe

# utilities against themselves fall from left to right
SAMPLES = ["the cat sat", "the cat sat", "the cat sat", "the cat sat down", "a cat", "birds"]


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "samples.jsonl",
                 {"source": "le chat", "samples": SAMPLES},
                 {"source": "oui", "samples": ["yes", "yes"]})


def best_to_worst(texts):
    ranking = minrisk.decode(texts)
    return list(dict.fromkeys(texts[i] for i in ranking.order))


def test_the_best_are_sources_with_targets(samples):
    result = run("export", samples)
    assert result.records == [{"source": "le chat", "target": "the cat sat"},
                              {"source": "oui", "target": "yes"}]


def test_the_best_as_a_conversation(samples):
    first, _ = run("export", samples, "--conversational", "--prompt", "English: {source}").records
    assert first == {"messages": [{"role": "user", "content": "English: le chat"},
                                  {"role": "assistant", "content": "the cat sat"}]}


def test_columns_have_no_tabs_or_lines_in_them(tmp_path):
    path = write(tmp_path / "x.jsonl", {"source": "a\tb\nc", "samples": ["x\r\ny"]})
    assert run("export", path, "--format", "tsv").out == "a b c\tx y\n"


def test_the_best_is_what_decode_picks(samples):
    args = ["--strategy", "aggregate-to-fine", "--keep", 2, "--metric.order", 2]
    decoded = [record["text"] for record in run("decode", samples, *args).records]
    assert [record["target"] for record in run("export", samples, *args).records] == decoded


@pytest.mark.parametrize(("args", "expected"), [
    (["best-worst"], [(0, 3)]),
    (["best-middle-worst"], [(0, 2), (2, 3)]),
    (["consecutive"], [(0, 1), (1, 2), (2, 3)]),
    (["consecutive", "--stride", 2], [(0, 2)]),
])
def test_pairs_are_of_distinct_hypotheses_in_order(samples, args, expected):
    ranked = best_to_worst(SAMPLES)
    assert len(ranked) == 4
    result = run("export", samples, "--pairs", *args)
    assert result.records == [
        {"prompt": "le chat", "chosen": ranked[a], "rejected": ranked[b]} for a, b in expected]
    assert "segments without two hypotheses of different utility: 1\n" in result.err


def test_pairs_as_conversations(samples):
    (pair,) = run("export", samples, "--pairs", "best-worst", "--conversational", "--prompt",
                  "In English, please: {source}").records
    assert pair == {
        "prompt": [{"role": "user", "content": "In English, please: le chat"}],
        "chosen": [{"role": "assistant", "content": "the cat sat"}],
        "rejected": [{"role": "assistant", "content": "birds"}],
    }


@given(hyps=text_lists, choice=st.sampled_from(["best-worst", "best-middle-worst", "consecutive"]),
       stride=st.integers(1, 4))
def test_the_chosen_is_always_better_than_the_rejected(hyps, choice, stride):
    ranking = minrisk.decode(hyps)
    utility = {hyp: ranking.utility[i] for i, hyp in enumerate(hyps)}
    pairs = list(TrainingRecipe(choice, stride).examples(Segment(hyps, source="s"), ranking))
    for pair in pairs:
        assert utility[pair["chosen"]] > utility[pair["rejected"]]
    if len(set(utility.values())) > 1 and choice == "best-worst":
        assert len(pairs) == 1


def test_what_the_last_stage_did_not_look_at_is_in_no_pair():
    ranking = Ranking(np.array([2, 0, 1]), np.array([1.0, np.nan, 2.0]))
    segment = Segment(["a", "b", "c"], source="s")
    assert list(TrainingRecipe("consecutive").examples(segment, ranking)) == [
        {"prompt": "s", "chosen": "c", "rejected": "a"}]


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A cat?"}]


def answered(text):
    return [{"role": "assistant", "content": text}]


def test_chats_are_prompts_as_they_were_sampled(tmp_path):
    path = write(tmp_path / "x.jsonl", {"messages": CHAT, "samples": SAMPLES})
    (pair,) = run("export", path, "--pairs", "best-worst", "--conversational").records
    assert pair == {"prompt": CHAT, "chosen": answered("the cat sat"),
                    "rejected": answered("birds")}
    (best,) = run("export", path, "--conversational").records
    assert best == {"messages": CHAT + answered("the cat sat")}


@pytest.mark.parametrize("more", [{}, {"source": "le chat"}])
def test_prompts_are_prompts_as_they_were_sampled(tmp_path, more):
    path = write(tmp_path / "x.jsonl", {"prompt": "A cat?", "samples": SAMPLES, **more})
    pairs = ["--pairs", "best-worst"]
    (pair,) = run("export", path, *pairs).records
    assert pair == {"prompt": "A cat?", "chosen": "the cat sat", "rejected": "birds"}
    (chat,) = run("export", path, *pairs, "--conversational").records
    assert chat["prompt"] == [{"role": "user", "content": "A cat?"}]
    (best,) = run("export", path).records
    assert best == {"source": more.get("source", "A cat?"), "target": "the cat sat"}


def test_a_template_is_filled_with_the_source_whatever_was_asked(tmp_path):
    path = write(tmp_path / "x.jsonl", {"source": "le chat", "prompt": "A cat?",
                                        "samples": SAMPLES})
    (pair,) = run("export", path, "--pairs", "best-worst", "--prompt", "{source}").records
    assert pair["prompt"] == "le chat"


@pytest.mark.parametrize("field", [{"prompt": "A cat?"}, {"messages": CHAT}])
def test_what_sample_wrote_becomes_pairs(server, tmp_path, field):
    prompts = write(tmp_path / "prompts.jsonl", {"id": 7, **field})
    samples = tmp_path / "samples.jsonl"
    assert run("sample", prompts, "--endpoint", server.endpoint, "--model", "m", "-n", 8,
               "-o", samples).code == 0
    (pair,) = run("export", samples, "--pairs", "best-worst", "--conversational").records
    assert pair["prompt"] == field.get("messages", [{"role": "user", "content": "A cat?"}])


def test_an_oracle_prefers_what_people_wrote(tmp_path):
    path = write(tmp_path / "x.jsonl", {"source": "s", "reference": "birds", "samples": SAMPLES})
    (pair,) = run("export", path, "--oracle", "reference", "--pairs", "best-worst").records
    assert pair["chosen"] == "birds"


def test_plain_text_with_its_sources_is_read(tmp_path):
    (tmp_path / "hyps.txt").write_text("a cat\na cat\na dog\ndogs\ndog\ndogs\n")
    (tmp_path / "src.txt").write_text("chat\nchiens\n")
    result = run("export", tmp_path / "hyps.txt", "-n", 3, "-s", tmp_path / "src.txt",
                 "--format", "tsv")
    assert result.out == "chat\ta cat\nchiens\tdogs\n"


def test_segments_that_fail_are_left_out_if_told_so(tmp_path):
    path = write(tmp_path / "x.jsonl", {"source": "s", "samples": ["a"]}, {"samples": ["b"]}, "{",
                 {"source": "t", "samples": ["c"]})
    result = run("export", path, "--on-error", "skip")
    assert [record["target"] for record in result.records] == ["a", "c"]
    assert "4 segments, 2 failed" in result.err


@pytest.mark.parametrize(("args", "message"), [
    ("@nosource.jsonl", "nosource.jsonl:1: "),
    ("@chat.jsonl", "chat.jsonl:1: found messages"),
    ("@chat.jsonl --pairs best-worst", "chat.jsonl:1: found messages"),
    ("@chat.jsonl --conversational --prompt {source}", "no source"),
    ("@odd.jsonl --conversational", "odd.jsonl:1: found messages \"hello\""),
    ("@none.jsonl", "cannot read"),
    ("@x.jsonl --format tsv --pairs best-worst", "--format json"),
    ("@x.jsonl --format tsv --conversational", "--format"),
    ("@x.jsonl --stride 2", "--pairs consecutive"),
    ("@x.jsonl --pairs best-worst --prompt Translate",
     "{source}"),
    ("@x.jsonl --prompt {source}", "--conversational"),
    ("@x.jsonl --nbest 3", "'--nbest'"),
    ("@x.jsonl -o @x.jsonl", "the output is the input"),
])
def test_what_makes_no_sense_is_told(tmp_path, args, message):
    write(tmp_path / "x.jsonl", {"source": "s", "samples": ["a", "b"]})
    write(tmp_path / "nosource.jsonl", {"samples": ["a", "b"]})
    write(tmp_path / "chat.jsonl", {"messages": CHAT, "samples": ["a", "b"]})
    write(tmp_path / "odd.jsonl", {"messages": "hello", "samples": ["a", "b"]})
    result = run("export", *args.replace("@", f"{tmp_path}/").split())
    assert result.code == 2
    assert message in result.err.strip().split("\n")[-1]
    assert "Traceback" not in result.err


@pytest.mark.filterwarnings("ignore")  # what datasets thinks of its own dependencies
@pytest.mark.parametrize("args", [(), ("--conversational",)])
def test_datasets_loads_the_pairs(bundled, tmp_path, args):
    datasets = pytest.importorskip("datasets", reason="needs datasets, which is heavy")
    path = write(tmp_path / "samples.jsonl", *bundled[:5])
    run("export", path, "--pairs", "best-middle-worst", "-o", tmp_path / "dpo.jsonl", *args)
    loaded = datasets.load_dataset("json", data_files=str(tmp_path / "dpo.jsonl"), split="train",
                                   cache_dir=str(tmp_path / "cache"))
    assert loaded.column_names == ["prompt", "chosen", "rejected"]
    assert len(loaded) == 10
    assert loaded.to_list() == [json.loads(line) for line in (tmp_path / "dpo.jsonl").open()]


@pytest.fixture
def exported(tmp_path, inline):
    """A folder of two shards, with a segment that failed."""
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", {"source": "x", "samples": ["y"]},
              {"source": "z", "samples": []})
    run("export", f"{tmp_path}/*.jsonl", "-o", f"{tmp_path}/out/", "--workers", 1)
    return tmp_path / "out"


def test_of_an_exported_folder_data_tools_read_the_shards_alone(exported):
    """They ignore names with a leading dot or underscore."""
    assert "zero hypotheses" in (exported / ".errors.jsonl").read_text()
    assert {path.name for path in exported.rglob("*") if not any(
        part.startswith((".", "_")) for part in path.relative_to(exported).parts)} == {
            "a.jsonl", "b.jsonl"}


@pytest.mark.filterwarnings("ignore")
def test_an_exported_folder_is_a_dataset(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets", reason="needs datasets, which is heavy")
    found = datasets.load_dataset(str(exported), split="train", cache_dir=str(tmp_path / "cache"))
    assert found.to_list() == [{"source": "x", "target": "y"}] * 2
    assert [one.text for one in minrisk.decode_corpus(found.map(
        lambda row: {"samples": [row["target"]]}))] == ["y", "y"]
