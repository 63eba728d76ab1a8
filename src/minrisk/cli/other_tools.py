"""Options of other tools, and former options of minrisk, with what to use instead.

The other tools are mbrs, comet-mbr and the paper's scripts; in commands that sample, transformers
and OpenAI's client; in `score`, sacreBLEU. A key is an option, or an option with a value.
"""

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
    "--regularization-weight": "--strategy low-rank --ridge R, whose scale is another one",
    "--report-format": "--report FILE, which is JSON",
    "-w": "--report FILE, which is JSON",
    "--format plain": "--format text",
    "--sampling-scheduler": "--strategy prune --start S, a number of references that doubles",
    "--metric.idf-sents": "--metric.idf FILE",
    "--metric.rescale-with-baseline": "--metric.baseline FILE",
    "--metric.model-type": "--metric.model",
    "--metric.api-key": "the environment variable OPENAI_API_KEY, or another one that "
                        "--metric.key-variable names",
    "--metric.base-url": "--metric.endpoint",
    "--lprobs": "a field `logprobs` of JSON lines, which `minrisk sample` writes",
    "--model": "--metric comet:MODEL",
    "--model-storage-path": "the environment variable HF_HOME",
    "--gpus": "--metric.device cuda, or a folder as output with --gpus-per-worker 1",
    "--rerank-top-k": "--strategy quality-then-mbr --keep K",
    "--qe-model": "--quality comet-kiwi:MODEL",
    "--method": f"--strategy: {_METHODS}",
    "--topk": "--keep",
    "--top-k": "--keep, the hypotheses that the second stage of a strategy compares",
    "--utility": "--metric",
    "--coarse-utility": "--coarse",
    "--chrf-eps-smoothing": "--metric.eps-smoothing",
    # former names of minrisk's own options
    "--allow-cut": "--allow-truncated",
    "--drop-cut": "--drop-truncated",
}
SAMPLING_OPTIONS = {  # in commands that sample
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
    "--n": "-n",
    "--num-return-sequences": "-n",
    "--max-new-tokens": "--max-tokens",
    "--api-key": "the environment variable OPENAI_API_KEY, or another one that --key-variable "
                 "names",
    "--base-url": "--endpoint",
}
SCORE_OPTIONS = {
    "-m": "--metric",
    "--metrics": "--metric",
    "--tokenize": "--metric.tokenize",
    "-i": "SYSTEM, an argument without a name; references are -r FILE",
    "--input": "SYSTEM, an argument without a name; references are -r FILE",
    "-t": "-r FILE, for test sets are not downloaded; -tok is --metric.tokenize",
    "--format plain": "--score-only",
    "--paired-ar": "--confidence, whose permutation test is approximate randomization",
    "--paired-ar-n": "--resamples",
}
SERVE_OPTIONS = {
    "--n": "-n",
    "--api-key": SAMPLING_OPTIONS["--api-key"],
    "--base-url": "--upstream",
    "--endpoint": "--upstream",
}
NO_EQUIVALENT = {
    "--metric.fastchrf": "it is not needed: chrf is native",
    "--metric.force": "it is not needed: choose --metric.tokenize",
    "--metric.trg-lang": "it is not needed: choose --metric.tokenize",
    "--metric.lang": "there is none: name the --metric.model",
    "--count-weight": "it is not needed: clusters always weigh by their size",
    "--log-time": "it is not needed: every run reports its seconds, --report FILE where they went",
    "--length-penalty": "there is none",
    "--do-sample": "it is not needed: without --beams it samples",
}
VALIDATE_OPTIONS = {"--top-k": "--top"}
_OF_COMMANDS = {"score": SCORE_OPTIONS, "serve": SERVE_OPTIONS,
                "validate": VALIDATE_OPTIONS} | dict.fromkeys(
    ("sample", "translate", "answer"), SAMPLING_OPTIONS)
_SECTION = "--common."


def foreign_hint(option: str, command: str | None) -> str | None:
    """What to use in this command instead of an option of another tool, or of a former option.

    Options about models concern the sampler in commands that sample, otherwise the metric.
    """
    if option.startswith(_SECTION):
        name = option.removeprefix(_SECTION)
        return (foreign_hint(f"--{name}", command)
                or f"here it is `{name}:` outside of any section")
    for table in (_OF_COMMANDS.get(command or "", {}), OPTIONS, NO_EQUIVALENT):
        if hint := table.get(option) or table.get(f"--metric.{option[2:]}"):
            return hint if table is NO_EQUIVALENT else f"here it is {hint}"
    return None
