"""`minrisk translate`: sources in, the best of many samples out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from minrisk._core.errors import InputError
from minrisk._core.options import flag
from minrisk._core.signature import settings, signature
from minrisk.cli.command import command
from minrisk.cli.components import SamplerOptions, StrategyOptions
from minrisk.cli.decode import NBEST_HELP, UTILITIES_HELP
from minrisk.cli.execute import execute
from minrisk.cli.prompt_input import PromptInput
from minrisk.cli.run_options import RunOptions
from minrisk.io.record import Weighting
from minrisk.io.writer import ChoiceWriter
from minrisk.pipeline.job import Work
from minrisk.pipeline.stages import Decode, SamplesToSegments, Write


@dataclass(frozen=True)
class TranslationOutput:
    weights: Literal["uniform", "logprobs"] = flag(
        "uniform", section="Method",
        help="Weights of samples as references: equal, or their probabilities.")
    format: Literal["text", "json"] = flag(
        "text", section="Output", help="One line of text per segment, or JSON lines.")
    nbest: int | None = flag(None, section="Output", metavar="K", ge=1, help=NBEST_HELP)
    utilities: bool = flag(False, section="Output", help=UTILITIES_HELP)
    sampling_workers: int | None = flag(
        None, metavar="W", ge=1, advanced=True,
        help="Number of workers that sample, on the GPUs; --workers is the number that "
        "decode.")

    def __post_init__(self) -> None:
        if self.format == "text" and (self.nbest or self.utilities):
            raise InputError("--nbest and --utilities need --format json; "
                             "text has one line per segment")

    def settings(self) -> dict[str, Any]:
        return {"form": self.format, "nbest": self.nbest, "utilities": self.utilities,
                "weights": self.weights}


@command(examples="""\
  minrisk translate sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 > out.txt
  minrisk translate sources.txt --model M -n 1024 --metric comet --strategy aggregate > out.txt
  minrisk translate sources.txt --endpoint http://localhost:8000/v1 --model NAME \\
      --prompt "Translate into French, and say nothing else: {source}" --temperature 0.7""")
def translate(sampling: SamplerOptions, prompts: PromptInput, method: StrategyOptions,
              options: RunOptions, output: TranslationOutput) -> int:
    """Draw many samples for every source, and keep the best.

    It is `minrisk sample` and `minrisk decode` in one, segment by segment. INPUT is plain text, a
    source a line, or JSON lines: {"source": "..."} with "id", and "prompt" or "messages" to give
    the model instead, where there are some.
    """
    options.apply()
    sampler, strategy = sampling.make(), method.make()
    draw = prompts.draw(sampler, options, must_instruct=True)
    drawing = {"n": prompts.num_samples, "seed": prompts.seed}
    choose = (SamplesToSegments(Weighting(output.weights)),
              Decode(strategy, None, options.on_error),
              Write(ChoiceWriter(output.format, output.nbest, output.utilities)))
    return execute(options, Work(
        files=prompts.files(),
        reader=prompts.reader,
        # one pool samples, on the GPUs if there are any; the other decodes
        pools=[replace(options.pool(draw), workers=output.sampling_workers),
               options.pool(*choose, gpus=False)],
        settings=settings(sampler, "sampler") | settings(strategy) | drawing | output.settings()
        | prompts.settings(),
        signatures=[signature(sampler, "sampler", **drawing),
                    signature(strategy, weights=output.weights)],
        extension=".txt" if output.format == "text" else ".jsonl",
        block=sampler.batch_size(draw.n),
        is_streaming=sampler.streams,
    )).code
