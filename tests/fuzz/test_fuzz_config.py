"""Whatever a configuration file says: options, or one line about what is wrong with it."""

from __future__ import annotations

import click
import yaml
from hypothesis import strategies as st

from fuzzing import fuzz, json_values, mutated, scalars
from minrisk._core.errors import InputError, MinriskError
from minrisk.cli.config import read_config
from minrisk.cli.decode import decode
from minrisk.cli.sample import translate

VALID = b"""\
# how the paper does it
metric: {name: chrf+bleu*0.5, chrf.order: 4}
strategy:
  name: coarse-to-fine
  keep: 20
  coarse: chrf
coarse.order: 2
input: [a.jsonl, "b c.jsonl"]
seed: 0x10
nbest: 3
utilities: yes
weights: length-normalised
output: |-
  best.jsonl
"""
SAMPLING = b"""\
sampler: {name: openai, endpoint: "http://127.0.0.1:1/v1", model: m, extra: '{"min_p": 0.1}'}
num-samples: 16
temperature: 1e-3
metric: cached:chrf
segment_timeout: 2.5
"""
PIECES = st.sampled_from([
    "a: ", "- ", "? ", "[", "]", "{", "}", ", ", "\n", "  ", "\t", "&a ", "*a", "!!str ", "!!map ",
    "!!binary ", "!!timestamp ", "!!python/object:os.system ", "<<: ", "%YAML 9.9", "---\n", "...",
    "2001-99-99", "2001-01-01T99:00:00", "1:60:60", "0x", "0b_", "1_", ".inf", ".nan", "~", "null",
    "yes", "'", '"', "\\x", "|\n", ">9\n", "#", "=", "\ufeff", "\x00", "\x85", "metric", "strategy",
    "input", "name", "seed: ", "keep: ", "order: ", "&a [*a, *a]", "{? {? {a: b} : c} : d}"])
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map(
    lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
KEYS = st.sampled_from(["metric", "strategy", "sampler", "input", "output", "seed", "num-samples",
                        "metric.order", "keep", "nbest", "batch-size", "threads", "config", "name",
                        "quiet", "help", "format", "weights", "buffer", "utilities", "", "-",
                        "a=b"])
MAPPINGS = st.dictionaries(KEYS, json_values | st.dictionaries(KEYS, scalars, max_size=3),
                           max_size=4).map(
    lambda found: yaml.safe_dump(found, allow_unicode=True).encode("utf-8", "surrogatepass"))
FILES = st.one_of(mutated(st.sampled_from([VALID, SAMPLING])), TEXTS, MAPPINGS,
                  st.binary(max_size=40))


@fuzz(content=FILES, command=st.sampled_from(["decode", "translate"]))
def test_a_configuration_is_values_of_options_or_an_error(content, command, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    try:
        config = read_config(str(path), command)
    except InputError:
        return
    for key, value in config.values.items():
        assert isinstance(key, str)
        assert value is not None
        assert not isinstance(value, dict)


@fuzz(content=FILES, command=st.sampled_from([decode, translate]))
def test_what_a_configuration_says_is_understood_or_told(content, command, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    try:
        context = command.make_context("minrisk", ["--config", str(path)])
    except (MinriskError, click.ClickException):
        return
    assert context.params["config"] == str(path)
