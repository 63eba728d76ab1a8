"""Option names of mbrs, comet-mbr and the paper's scripts, and our own earlier ones."""

from __future__ import annotations

_DECODERS = ("standard (mbr), aggregate (aggregate_mbr), prune (pruning_mbr), centroid "
             "(centroid_mbr), low-rank (probabilistic_mbr) or rerank")
_METHODS = "standard (pairwise), aggregate, aggregate-to-fine or coarse-to-fine"
OPTIONS = {
    "--decoder": f"--strategy: {_DECODERS}",
    "--config-path": "--config FILE, with a key for each option: `metric: {name: comet, model: M}`",
    "--hypotheses": "INPUT, an argument without a name (`input:` in a configuration file)",
    "--selector": "--strategy diverse",
    "--plugin-dir": "--metric python:module:function, or an entry point of a package",
    "--metric.fp16": "--metric.dtype fp16",
    "--metric.bf16": "--metric.dtype bf16",
    "--metric.cpu": "--metric.device cpu",
    "--metric.batch-size": "--metric.tokens, the tokens that are encoded at once",
    "--metric.char-order": "--metric.order",
    "--metric.max-ngram-order": "--metric.order",
    "--metric.num-workers": "--threads",
    "--reduction-factor": "--strategy low-rank --budget B, the share of the pairs",
    "--report-format": "--report FILE, which is JSON",
    "--lprobs": "a field `logprobs` of JSON lines, which `minrisk sample` writes",
    "--model": "--metric comet:MODEL",
    "--model-storage-path": "the environment variable HF_HOME",
    "--gpus": "--metric.device cuda, or a folder as output with --gpus-per-worker 1",
    "--rerank-top-k": "--strategy quality-then-mbr --keep K",
    "--qe-model": "--quality comet-kiwi:MODEL",
    "--method": f"--strategy: {_METHODS}",
    "--topk": "--keep",
    "--utility": "--metric",
    "--coarse-utility": "--coarse",
    "--chrf-eps-smoothing": "--metric.eps-smoothing",
    # our own, as they were called before
    "--allow-cut": "--allow-truncated",
    "--drop-cut": "--drop-truncated",
}
SAMPLING_OPTIONS = {  # of commands that sample
    "--fp16": "--dtype fp16",
    "--bf16": "--dtype bf16",
    "--cpu": "--device cpu",
    "--sampling": "--epsilon E, --top-k K or --top-p P",
    "--lang-pair": "--source-language and --target-language",
    "--beam-size": "--beams",
    "--max-length": "--max-tokens",
    "--min-length": "--min-tokens",
    "--sampling-size": "--rows",
    "--epsilon-cutoff": "--epsilon",
}
_VALUES: dict[tuple[str, object], str] = {("--format", "plain"): "--format text"}
_SECTION = "--common."


def our_option(option: str, samples: bool) -> str | None:
    """The present name in minrisk of an option of another tool, or of one that was renamed.

    An option of models is the sampler's if the command `samples`, and else the metric's.
    """
    if option.startswith(_SECTION):
        name = option.removeprefix(_SECTION)
        return our_option(f"--{name}", samples) or f"`{name}:` outside of any section"
    found = OPTIONS.get(option) or OPTIONS.get(f"--metric.{option[2:]}")
    return SAMPLING_OPTIONS.get(option, found) if samples else found


def our_value(option: str, value: object) -> str | None:
    """The name in minrisk of a value of an option of another tool."""
    return _VALUES.get((option, value))
