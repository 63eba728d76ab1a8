"""The commands that draw samples: `sample`, and `translate` and `answer`, which choose, too."""

from __future__ import annotations

from dataclasses import dataclass

from minrisk._core.options import flag
from minrisk.cli.command import command
from minrisk.cli.components import SamplerOptions, StrategyOptions
from minrisk.cli.decode import InputOptions
from minrisk.cli.execute import CommandRun, execute
from minrisk.tasks.sample import PromptOptions, SampleOutput, Sampling
from minrisk.tasks.translate import ANSWER_SAMPLES, AnswerOutput, TranslationOutput, voting_metric

_FREQUENT = {
    "model": "Hub name or folder of the model; with --endpoint, its name on the server.",
    "temperature": "Temperature of sampling."}
_VOTE = ("With --endpoint: stop sampling once one answer has won; a regular expression, group 1 of "
         "the last match.")


@dataclass(frozen=True)
class PromptInput(PromptOptions, InputOptions):
    """Prompts in plain text or JSON lines."""

    def sampling(self, sampler: SamplerOptions) -> Sampling:
        return Sampling(self.corpus(), sampler.make(), self, sampler.fields["references"])


@dataclass(frozen=True)
class AnswerInput(PromptInput):
    """Prompts for `answer`, which draws fewer samples by default."""

    num_samples: int = flag(ANSWER_SAMPLES, "-n", section="Sampling", metavar="N", ge=1,
                            help="Number of samples per prompt.")


@command(examples="""\
  minrisk sample sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 -o samples.jsonl
  minrisk sample sources.txt --sampler ct2 --model opus-mt-ct2 --top-p 0.9 -o samples.jsonl
  minrisk sample prompts.jsonl --endpoint http://localhost:8000/v1 --model NAME -n 64
  minrisk sample sources.txt --model M -n 64 --beams 64 --reference-samples 256 \\
      --references.beams 0 --references.epsilon 0.02 -o samples.jsonl
  minrisk sample sources.txt --model M -n 1024 -o samples.jsonl --resume""")
def sample(sampling: SamplerOptions, prompts: PromptInput, options: CommandRun,
           output: SampleOutput) -> int:
    """Draw many samples for every source.

    INPUT is plain text, one source per line, or JSON lines: {"source": "..."}, optionally with
    "id", and with a "prompt" or "messages" ({"role", "content"} each) for the model; other fields
    are copied. The output is JSON lines: {"id", "source", "samples", "counts", "logprobs"}, and
    with --reference-samples also "references" and "weights". FILE.run.json, beside an output FILE,
    records how it was made.
    """
    return execute(options, output.job(prompts.sampling(sampling), options)).code


@command(frequent=_FREQUENT, examples="""\
  minrisk translate sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 > out.txt
  minrisk translate sources.txt --model M -n 1024 --metric comet --strategy aggregate > out.txt
  minrisk translate sources.txt --endpoint http://localhost:8000/v1 --model NAME \\
      --prompt "Translate into French, and say nothing else: {source}" --temperature 0.7""")
def translate(sampling: SamplerOptions, prompts: PromptInput, method: StrategyOptions,
              options: CommandRun, output: TranslationOutput) -> int:
    """Draw many samples for every source, and keep the best.

    This combines `minrisk sample` and `minrisk decode`. INPUT is plain text, one source per line,
    or JSON lines: {"source": "..."}, optionally with "id", and with a "prompt" or "messages" for
    the model.
    """
    drawn = prompts.sampling(sampling)
    strategy = method.make(voting_metric(drawn.sampler))
    return execute(options, output.job(drawn, strategy, options)).code


@command(frequent=_FREQUENT | {"vote": _VOTE}, examples="""\
  minrisk answer questions.txt --endpoint http://localhost:8000/v1 --model NAME \\
      --metric exact-match --metric.pattern 'answer is (\\d+)' -o answers.jsonl
  minrisk answer chats.jsonl --model FOLDER --temperature 0.7 --metric embedding""")
def answer(sampling: SamplerOptions, prompts: AnswerInput, method: StrategyOptions,
           options: CommandRun, output: AnswerOutput) -> int:
    """Draw many samples for every prompt, and keep the best.

    The best sample is the one that agrees most with the others. INPUT is plain text, one prompt per
    line, or JSON lines: {"prompt": "..."} or {"messages": [...]}. With --metric exact-match, or
    with --vote PATTERN and --endpoint, this is self-consistency: the output has the answer and its
    votes.
    """
    drawn = prompts.sampling(sampling)
    strategy = method.make(voting_metric(drawn.sampler))
    return execute(options, output.job(drawn, strategy, options)).code
