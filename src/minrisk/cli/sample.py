"""`minrisk sample`: sources in, samples out, as `minrisk decode` reads them."""

from __future__ import annotations

from minrisk.cli.command import command
from minrisk.cli.components import SamplerOptions
from minrisk.cli.execute import execute
from minrisk.cli.prompt_input import PromptInput
from minrisk.cli.run_options import CommandRun
from minrisk.tasks.sample import SampleOutput


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

    INPUT is plain text, a source a line, or JSON lines: {"source": "..."} with "id", and "prompt"
    or "messages" ({"role", "content"} each) to give the model instead, where there are some; other
    fields pass through. The output is JSON lines: {"id", "source", "samples", "counts",
    "logprobs"}, and "references" with "weights" where --reference-samples draws some. Beside a
    file, FILE.run.json says how it was made.
    """
    options.apply()
    return execute(options, output.job(prompts.sampling(sampling), options)).code
