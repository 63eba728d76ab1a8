"""Folders and options of Hugging Face models: prompts, chats, stops, and what is refused."""

from __future__ import annotations

import math
import pickle
import sys
import warnings
from collections import Counter
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")

import minrisk
import tiny_models
from commands import run, write
from minrisk._core.errors import InputError, MissingExtra
from minrisk._core.signature import signature
from minrisk.samplers.hf import Transformers, generator

pytestmark = [pytest.mark.usefixtures("one_thread"),
              pytest.mark.filterwarnings("ignore:.*samples so far were cut")]  # limits are low here
SOURCES = ["the cat sat on a mat", "the dog", "it ran to a red mat"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each kind of model, made when somebody asks for it."""
    made: dict[str, str] = {}

    def folder(kind: str) -> str:
        if kind not in made:
            made[kind] = tiny_models.save(tmp_path_factory.mktemp(kind), kind)
        return made[kind]

    return folder


TEMPLATE = "{% for m in messages %}<s> {{ m.content }} {% endfor %}big"


def test_a_folder_is_all_it_takes(folders):
    sampler = Transformers(folders("marian"), epsilon=0.02, device="cpu")
    assert sampler.name == "hf"
    assert not sampler.is_causal
    first, second = sampler.sample(SOURCES[:2], 20, 3)
    assert sum(sample.count for sample in first) == 20
    assert all(sample.tokens[-1] == tiny_models.EOS for sample in first)
    assert all("</s>" not in sample.text for sample in first)
    [again] = sampler.sample(SOURCES[1:2], 20, 3, [1])
    assert [(s.text, s.tokens, s.count) for s in again] == [
        (s.text, s.tokens, s.count) for s in second]
    assert sampler.sample([], 20) == []


@pytest.fixture
def loads(monkeypatch):
    """The models that are loaded."""
    names: list[str] = []
    load = generator.load_model

    def counted(kind, name, *args, **options):
        names.append(name)
        return load(kind, name, *args, **options)

    monkeypatch.setattr(generator, "load_model", counted)
    return names


@pytest.mark.parametrize("sent", [False, True], ids=["here", "in a worker"])
def test_other_options_of_sampling_share_the_model(folders, loads, sent):
    first = Transformers(folders("marian"), device="cpu", max_tokens=5)
    second = first.with_options(top_k=1)
    if sent:
        first, second = pickle.loads(pickle.dumps((first, second)))
    second.prepare()
    [samples] = first.sample(SOURCES[:1], 20)
    [likeliest] = second.sample(SOURCES[:1], 20)
    assert len(loads) == 1
    assert len(samples) > len(likeliest) == 1
    assert likeliest == Transformers(folders("marian"), device="cpu", max_tokens=5,
                                     top_k=1).sample(SOURCES[:1], 20)[0]


def test_another_number_format_is_another_model(folders, loads):
    first = Transformers(folders("marian"), device="cpu", max_tokens=5)
    for sampler in (first, first.with_options(dtype="bf16")):
        sampler.prepare()
    assert len(loads) == 2


def test_beams_are_chosen_among_by_sampled_references_with_one_model(folders, loads):
    found = minrisk.sample(SOURCES, 3, model=folders("marian"), device="cpu", beams=3,
                           max_tokens=5, reference_samples=20,
                           reference_options={"beams": 0, "epsilon": 0.02})
    for result in found:
        assert [s.count for s in result.samples] == [1, 1, 1]
        assert sum(s.count for s in result.reference_samples) == 20
    assert len(loads) == 1


def test_languages_become_the_codes_that_models_want(folders):
    sampler = Transformers(folders("m2m"), device="cpu", target_language="fr_XX", max_tokens=5)
    assert {s.tokens[0] for s in sampler.sample(SOURCES[:1], 20)[0]} == {5}
    with pytest.raises(InputError, match=r"'tlh' .* en_XX, fr_XX"):
        Transformers(folders("m2m"), target_language="tlh").sample(SOURCES, 1)


def test_a_source_language_is_refused_where_nobody_looks_at_it(folders):
    with pytest.raises(InputError, match="'cat'"):
        Transformers(folders("marian"), source_language="cat").sample(SOURCES, 1)


def test_what_only_takes_memory_is_not_in_the_signature():
    text = signature(Transformers("m", rows=3, memory=1.0), "sampler")
    assert text.startswith("sampler:hf|model:m|")
    assert "rows" not in text
    assert "memory" not in text


def drawn(sampler: Transformers) -> list[tuple[str, int]]:
    [samples] = sampler.sample(["cat sat"], 20)
    return [(sample.text, sample.count) for sample in samples]


def test_a_causal_model_writes_on_from_its_prompt(tmp_path):
    plain = tiny_models.save(tmp_path / "plain", "gpt2")
    chat = tiny_models.save(tmp_path / "chat", "gpt2", template=TEMPLATE)
    asked = Transformers(plain, device="cpu", prompt="<s> the {source} big", max_tokens=5)
    assert asked.is_causal
    templated = Transformers(chat, device="cpu", prompt="the {source}", max_tokens=5)
    assert drawn(asked) == drawn(templated)
    assert drawn(Transformers(plain, device="cpu", max_tokens=5)) != drawn(asked)


CHAT = ("<s>{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}"
        "{% endif %}en_XX {{ m.role }} {{ m.content }} fr_XX {% endfor %}"
        "{% if add_generation_prompt %}en_XX dog{% endif %}")


def written(sampler: Transformers, prompt) -> tuple[int, ...]:
    """The tokens that a model is given."""
    [found] = sampler._generator._prompts.of([prompt], [0])
    return found.prefix


def tokens(text: str) -> tuple[int, ...]:
    return tuple(tiny_models.tokenizer(ends=False)(text)["input_ids"])


@pytest.fixture(scope="module")
def chat(tmp_path_factory) -> str:
    return tiny_models.save(tmp_path_factory.mktemp("chat"), "gpt2", CHAT)


def test_messages_become_what_the_chat_template_makes_of_them(chat):
    sampler = Transformers(chat, device="cpu", max_tokens=5)
    messages = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"},
                {"role": "user", "content": "on a \ud800 mat"}]
    assert written(sampler, messages) == tokens(
        "<s> en_XX user the cat fr_XX en_XX assistant sat fr_XX en_XX user on a \ufffd mat fr_XX "
        "en_XX dog")
    alone, text = sampler.sample([messages[:1], "the cat"], 5, indices=[7, 7])
    assert alone == text


def test_a_system_message_comes_before_chats_that_have_none(chat):
    sampler = Transformers(chat, device="cpu", system="big", max_tokens=5)
    mine = "<s> en_XX system big fr_XX en_XX user the cat fr_XX en_XX dog"
    assert written(sampler, "the cat") == tokens(mine)
    for role in ("system", "developer"):
        given = [{"role": role, "content": "red"}, {"role": "user", "content": "the cat"}]
        assert written(sampler, given) == tokens(mine.replace("system big", f"{role} red"))


@pytest.mark.parametrize("template", [CHAT, "{% for m in messages %}red {{ m.content }}{% endfor %}"
                                            " big"], ids=["tokens", "plain text"])
def test_markers_of_a_chat_template_are_not_doubled(tmp_path, template):
    sampler = Transformers(tiny_models.save(tmp_path, "gpt2", template), device="cpu", max_tokens=5)
    own = {CHAT: "<s>en_XX user the cat fr_XX en_XX dog"}.get(template, "red the cat big")
    assert written(sampler, own) == written(sampler, "the cat") == tokens(own)
    filled = replace(sampler, prompt=own.replace("cat", "{source}"))
    assert written(filled, "cat") == tokens(own)
    assert written(replace(sampler, prompt="a {source}"), own) != tokens(f"a {own}")


@pytest.mark.parametrize(("options", "messages", "wants"), [
    ({}, [{"role": "tool", "content": "a"}], "no tools"),
    ({}, [{"content": "a"}, 3], "chat template"),
    ({"prompt": "say {source}"}, [{"role": "user", "content": "a"}], "prompt")])
def test_messages_that_cannot_be_given_are_refused(chat, options, messages, wants):
    with pytest.raises(InputError, match=wants):
        Transformers(chat, device="cpu", max_tokens=5, **options).sample([messages], 1)


@pytest.mark.parametrize("kind", ["marian", "gpt2"])
def test_messages_are_for_models_with_a_chat_template(folders, kind):
    with pytest.raises(InputError, match="chat template"):
        Transformers(folders(kind), device="cpu", max_tokens=5).sample(
            [[{"role": "user", "content": "a"}]], 1)


def test_messages_are_sampled_from_the_command_line(chat, tmp_path):
    lines = write(tmp_path / "chats.jsonl", {"messages": [{"role": "user", "content": "the cat"}]})
    found = run("sample", lines, "--model", chat, "--device", "cpu", "-n", 3, "--max-tokens", 4,
                "--system", "big", "-q")
    assert found.code == 0, found.err
    [record] = found.records
    assert sum(record["counts"]) == 3
    for column in ("lowest_logprobs", "tail_logprobs", "certainties"):
        assert len(record[column]) == len(record["counts"])


@pytest.mark.parametrize("stop", ["mat", '["cat sat", "mat", "it "]', "t"])
@pytest.mark.parametrize("kind", ["marian", "gpt2"])
def test_a_stop_string_ends_a_sample_where_it_comes(folders, kind, stop):
    """SampledSequence by the same random numbers, a sample is the same up to there."""
    free = Transformers(folders(kind), device="cpu", max_tokens=8)
    ends = replace(free, stop=stop)
    texts = ends.stop_strings
    [whole], [cut] = (sampler.sample(SOURCES[:1], 60) for sampler in (free, ends))
    expected: Counter[str] = Counter()
    for sample in whole:
        place = min([sample.text.find(own) for own in texts if own in sample.text],
                    default=len(sample.text))
        expected[sample.text[:place].strip()] += sample.count
    found: Counter[str] = Counter()
    for sample in cut:
        found[sample.text] += sample.count
    assert found == expected
    stopped = [sample for sample in cut if sample.tokens[-1] != tiny_models.EOS
               and len(sample.tokens) < 8]
    assert stopped
    assert {sample.finish_reason for sample in stopped} == {"stop"}


def test_a_model_that_stops_at_a_text_does_so(tmp_path):
    model = tiny_models.model("gpt2")
    model.generation_config.stop_strings = ["mat"]
    model.save_pretrained(tmp_path)
    tiny_models.tokenizer(ends=False).save_pretrained(tmp_path)
    sampler = Transformers(str(tmp_path), device="cpu", max_tokens=8)
    assert all("mat" not in sample.text for sample in sampler.sample(["the cat"], 60)[0])
    with pytest.raises(InputError, match="'mat'"):
        replace(sampler, beams=2).sample(["the cat"], 1)


@pytest.mark.parametrize("template", [None, TEMPLATE], ids=["plain", "chat"])
def test_half_a_character_is_read_as_an_unknown_one(tmp_path, template):
    sampler = Transformers(tiny_models.save(tmp_path, "gpt2", template), device="cpu", max_tokens=5)
    assert sampler.sample(["the \ud800 cat"], 5) == sampler.sample(["the \ufffd cat"], 5)


def test_a_tokenizer_that_panics_costs_its_source_and_no_more(tmp_path):
    """A panic of Rust code is no Exception; uncaught it ends a worker."""
    from tokenizers import Regex, pre_tokenizers

    folder = tiny_models.save(tmp_path, "marian")
    words = tiny_models.tokenizer()
    words.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(x+x+)+y"), "isolated")
    words.save_pretrained(folder)
    sampler = Transformers(folder, device="cpu", max_tokens=3)
    with pytest.raises(InputError, match="Onig"):
        sampler.sample(["x" * 60], 2)
    assert len(sampler.sample(["cat"], 2)) == 1


def test_sources_past_the_limit_are_cut_with_a_warning_that_counts_them(folders):
    long = " ".join(["the", "cat"] * 40)
    sampler = Transformers(folders("marian"), device="cpu", max_tokens=3)
    with pytest.warns(UserWarning, match="1 of 2 .*32 tokens"):
        _, found = sampler.sample(["the dog", long], 5)
    [short] = sampler.sample([" ".join(["the", "cat"] * 15 + ["the"])], 5, 0, [1])
    assert [s.tokens for s in found] == [s.tokens for s in short]
    strict = Transformers(folders("marian"), device="cpu", max_tokens=3, overlong="error")
    with pytest.raises(InputError, match=r"source 2 .*32 tokens"):
        strict.sample(["the dog", long], 5)


BAD_OPTIONS = [
    ({"epsilon": 1.0}, "hf: epsilon must be a number of at least 0 and below 1; got 1.0"),
    ({"epsilon": -0.1}, "epsilon must be .*; got -0.1"), ({"eta": 2}, "eta must be .*; got 2"),
    ({"top_k": -1}, "hf: top_k must be an integer of at least 0; got -1"),
    ({"top_p": 0}, "hf: top_p must be a number above 0 and at most 1; got 0"),
    ({"min_p": 1}, "min_p must be .*; got 1"),
    ({"temperature": 0}, "hf: temperature must be a number above 0; got 0"),
    ({"temperature": math.nan}, "temperature must be a number above 0; got nan"),
    ({"beams": -1}, "beams must be .*; got -1"),
    ({"beams": 4, "epsilon": 0.02}, "beams=4 and epsilon"),
    ({"max_tokens": 0}, "hf: max_tokens must be an integer of at least 1 or None; got 0"),
    ({"min_tokens": -1}, "min_tokens must be .*; got -1"),
    ({"max_tokens": 2, "min_tokens": 3}, "min_tokens must be at most max_tokens, 2; got 3"),
    ({"max_tokens": 99}, "at most 31"),
    ({"prompt": "say it"}, r"has no \{source\}"),
    ({"stop": "[1]"}, r"stop must be .*; got '\[1\]'"),
    ({"stop": '[""]'}, "stop must be a text, or a JSON list"),
    ({"stop": "mat", "beams": 2}, "beams=2 and stop"),
    ({"system": "be good"}, "system is for models with a chat template"),
    ({"rows": 0}, "rows must be .*; got 0"),
    ({"memory": 0}, "memory must be a number above 0 or None; got 0"),
    ({"device": "gpu"}, "device 'gpu'"),
]


@pytest.mark.parametrize(("options", "wants"), BAD_OPTIONS, ids=lambda value: str(value)[:30])
def test_options_that_make_no_sense_are_refused(folders, options, wants):
    with pytest.raises(InputError, match=wants):
        Transformers(folders("marian"), **{"device": "cpu"} | options).sample(SOURCES, 1)


@pytest.mark.parametrize(("texts", "n", "wants"), [
    (["the cat", " \t"], 1, "source 2"), ([""], 1, "source 1"),
    (["the cat"], 0, "n must .* 0"), (["the cat"], -3, "got -3")])
def test_prompts_that_make_no_sense_are_refused(folders, texts, n, wants):
    with pytest.raises(InputError, match=wants):
        Transformers(folders("marian"), device="cpu").sample(texts, n)


def test_more_samples_than_beams_are_refused(folders):
    with pytest.raises(InputError, match="beams, 2; got 3"):
        Transformers(folders("marian"), device="cpu", beams=2).sample(SOURCES, 3)


@pytest.mark.parametrize(("gone", "wants"), [
    ("model.safetensors", "model"),
    ("config.json", "configuration"),
    ("tokenizer*", "tokenizer"),
])
def test_a_folder_that_lacks_something_is_refused(tmp_path, gone, wants):
    folder = tiny_models.save(tmp_path / "model", "marian")
    for path in (tmp_path / "model").glob(gone):
        path.unlink()
    with pytest.raises(InputError, match=wants):
        Transformers(folder, device="cpu").sample(SOURCES, 1)


def test_a_name_that_nobody_has_is_refused():
    with pytest.raises(InputError, match="nobody/nothing"):
        Transformers("nobody/nothing").sample(SOURCES, 1)
    with pytest.raises(InputError, match="no-such-folder"):
        Transformers("no-such-folder").sample(SOURCES, 1)


@pytest.mark.parametrize("options", [{}, {"beams": 2}], ids=str)
def test_a_model_of_nothing_but_nan_is_told(tmp_path, options):
    model = tiny_models.model("marian")
    model.get_output_embeddings().weight.data[:] = math.nan
    model.save_pretrained(tmp_path)
    tiny_models.tokenizer().save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"source \d: .*logits"):
        Transformers(str(tmp_path), device="cpu", **options).sample(SOURCES, 2)


def test_the_sampler_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for name in [name for name in sys.modules if name.startswith("minrisk.samplers.hf.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match=r"minrisk\[hf\]"):
        Transformers("some/model").sample(SOURCES, 1)


@pytest.mark.parametrize(("n", "sources"), [(1, 16), (32, 16), (64, 8), (256, 2), (512, 1),
                                            (1024, 1)])
def test_a_cpu_gets_few_sources_at_a_time(n, sources):
    """So that finished ones are on disk before many others are drawn."""
    assert Transformers("some/model", device="cpu").batch_size(n) == sources
    assert Transformers("some/model", device="meta").batch_size(n) == 16
    assert Transformers("some/model", device="cpu", beams=16).batch_size(1) == 4


@pytest.mark.parametrize("kind", ["marian", "t5"])  # one is forced to end at the limit
def test_samples_that_were_cut_are_counted(folders, kind):
    sampler = Transformers(folders(kind), device="cpu", max_tokens=3)
    with pytest.warns(UserWarning, match="of 20 .*max_tokens=3") as (
            first):
        [found] = sampler.sample(SOURCES[:1], 20)
    cut = [sample for sample in found if sample.finish_reason == "length"]
    assert {len(sample.tokens) for sample in cut} == {3}
    assert all(len(sample.tokens) < 3 or sample.tokens[-1] == tiny_models.EOS for sample in found
               if sample.finish_reason == "stop")
    assert 0 < len(cut) < len(found)
    assert str(first[0].message).startswith(f"{sum(sample.count for sample in cut)} of")
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        for place in range(1, 9):
            sampler.sample(SOURCES[:1], 20, 0, [place])
    assert 0 < len(again) < 3  # when there are ten times as many


def test_beams_that_were_cut_are_counted(folders):
    sampler = Transformers(folders("t5"), device="cpu", max_tokens=2, beams=4)
    with pytest.warns(UserWarning, match="4 of 4 samples"):
        [found] = sampler.sample(SOURCES[:1], 4)
    assert [sample.finish_reason for sample in found] == ["length"] * 4
