"""What `sample` and `translate` have in common: prompts in, samples drawn, runs gone on with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import click

from minrisk.cli.inputs import open_inputs
from minrisk.cli.method import ENDPOINT, SAMPLER
from minrisk.cli.progress import Progress
from minrisk.cli.scaling import scale_options
from minrisk.cli.shared import check_files, names_of, option, together
from minrisk.engine.sampling import Drawn, draw
from minrisk.engine.stages import count_samples
from minrisk.errors import InputError
from minrisk.io.files import Input
from minrisk.io.prompts import Asked, read_prompts
from minrisk.io.resume import Resumable
from minrisk.registry import SAMPLERS
from minrisk.sampling.sample import Sampler

_POSITIVE = click.IntRange(min=1)
_sampling = partial(option, "Sampling")
_run = partial(option, "Run")


sampling_options = together(
    click.argument("inputs", metavar="[INPUT]...", nargs=-1, type=click.Path()),
    _sampling("--sampler", metavar="NAME", shell_complete=names_of(SAMPLERS),
              help="What draws; fill its fields with --FIELD.  "
              f"[default: {SAMPLER}, or {ENDPOINT} where there is an --endpoint]"),
    _sampling("-n", "--num-samples", type=_POSITIVE, default=256, show_default=True, metavar="N",
              help="Samples of each source."),
    _sampling("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="S",
              help="Of everything that is drawn at random."),
    _sampling("--input-format", type=click.Choice(["auto", "text", "json"]), default="auto",
              show_default=True, help="Auto takes for JSON lines what is named so, or begins "
              "with a brace."),
)

run_options = together(
    _run("--resume/--no-resume", help="Go on with an interrupted output: what is finished stays."),
    _run("--on-error", type=click.Choice(["stop", "skip"]),
         help="Skip records the error of a segment in the output and goes on.  "
         "[default: stop; skip with a folder]"),
    _run("--batch-size", type=_POSITIVE, metavar="B",
         help="Sources per batch; chosen by the sampler."),
    _run("--threads", type=int, metavar="T", help="Of the processor; one per core unless given."),
    _run("--config", metavar="FILE", type=click.Path(),
         help="YAML with any of these options; the command line wins."),
    _run("-q/ ", "--quiet/--no-quiet", help="Nothing on standard error but errors."),
    scale_options,
    _run("--input", "configured", multiple=True, hidden=True),  # the key of a configuration file
)


def inputs_for(params: dict[str, Any]) -> list[Input]:
    inputs = open_inputs(paths_of(params))
    check_files([*(source.path for source in inputs), params["config"]], [params["output"]])
    return inputs


def prompts_for(params: dict[str, Any], inputs: list[Input], made: dict[str, Any],
                progress: Progress) -> Iterable[Asked]:
    """The prompts that are still to be answered; `made` says how that is done."""
    asked = read_prompts(inputs, params["input_format"])
    path = params["output"]
    if not params["resume"]:
        if Resumable.fits(path):
            Resumable(path, made).begin()
        return asked
    if not Resumable.fits(path):
        raise InputError("--resume goes on with a file; name one with -o")
    everything = list(asked)
    left = Resumable(path, made).remaining(everything)
    progress.note(f"{path}: {len(everything) - len(left)} finished, {len(left)} to go")
    progress.expect(len(left))
    return left


def drawn(sampler: Sampler, asked: Iterable[Asked], params: dict[str, Any],
          progress: Progress) -> Iterator[tuple[Asked, Drawn]]:
    """Every prompt with its samples, which are counted on the way."""
    for item, result in draw(sampler, asked, params["num_samples"], params["seed"],
                             params["batch_size"], params["on_error"] or "stop"):
        progress.count(**count_samples(result))
        yield item, result


def paths_of(params: dict[str, Any]) -> list[str]:
    return list(params["inputs"] or params["configured"])
