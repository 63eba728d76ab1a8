"""`minrisk translate`: sources in, the best of many samples out."""

from __future__ import annotations

from minrisk.cli.command import command
from minrisk.cli.components import SamplerOptions, StrategyOptions
from minrisk.cli.execute import execute
from minrisk.cli.prompt_input import PromptInput
from minrisk.cli.run_options import CommandRun
from minrisk.tasks.translate import TranslationOutput, voting_metric


@command(examples="""\
  minrisk translate sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 > out.txt
  minrisk translate sources.txt --model M -n 1024 --metric comet --strategy aggregate > out.txt
  minrisk translate sources.txt --endpoint http://localhost:8000/v1 --model NAME \\
      --prompt "Translate into French, and say nothing else: {source}" --temperature 0.7""")
def translate(sampling: SamplerOptions, prompts: PromptInput, method: StrategyOptions,
              options: CommandRun, output: TranslationOutput) -> int:
    """Draw many samples for every source, and keep the best.

    It is `minrisk sample` and `minrisk decode` in one, segment by segment. INPUT is plain text, a
    source a line, or JSON lines: {"source": "..."} with "id", and "prompt" or "messages" to give
    the model instead, where there are some.
    """
    options.apply()
    drawn = prompts.sampling(sampling)
    strategy = method.make(voting_metric(drawn.sampler))
    return execute(options, output.job(drawn, strategy, options)).code
