"""`minrisk answer`: prompts in, the answer that many samples agree on out."""

from __future__ import annotations

from minrisk.cli.command import command
from minrisk.cli.components import SamplerOptions, StrategyOptions
from minrisk.cli.execute import execute
from minrisk.cli.prompt_input import AnswerInput
from minrisk.cli.run_options import CommandRun
from minrisk.tasks.translate import AnswerOutput, voting_metric


@command(examples="""\
  minrisk answer questions.txt --endpoint http://localhost:8000/v1 --model NAME \\
      --metric exact-match --metric.pattern 'answer is (\\d+)' -o answers.jsonl
  minrisk answer chats.jsonl --model FOLDER --temperature 0.7 --metric embedding""")
def answer(sampling: SamplerOptions, prompts: AnswerInput, method: StrategyOptions,
           options: CommandRun, output: AnswerOutput) -> int:
    """Draw many samples for every prompt, and keep the best.

    The best is the one that agrees most with all of them. It is `minrisk translate` for prompts
    that are no translations. INPUT is plain text, a prompt a line, or JSON lines: {"prompt": "..."}
    or {"messages": [...]}. With --metric exact-match, or --vote PATTERN at an --endpoint, it is
    self-consistency: the output has the answer and its votes.
    """
    options.apply()
    drawn = prompts.sampling(sampling)
    strategy = method.make(voting_metric(drawn.sampler))
    return execute(options, output.job(drawn, strategy, options)).code
