"""Many files into a folder of shards, on one machine or on a cluster."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from minrisk.cli.progress import Progress
from minrisk.cli.shared import (
    check_files,
    code_for,
    names_folder,
    option,
    summing_up,
    together,
)
from minrisk.engine.batches import BATCH
from minrisk.engine.crew import Crew
from minrisk.engine.local import Local
from minrisk.engine.pipeline import Engine, Pipeline
from minrisk.errors import InputError
from minrisk.io.files import Input, Output
from minrisk.io.folder import Folder
from minrisk.io.place import place_of
from minrisk.io.prompts import InputFormat
from minrisk.io.shards import Shard, expand, shards
from minrisk.version import __version__

_GB = 1 << 30
_scale = partial(option, "Scale (with a folder as output)")

scale_options = together(
    _scale("--engine", type=click.Choice(["local", "ray"]),
           help="Processes of this machine, or Ray, which needs minrisk[ray].  [default: local]"),
    _scale("--address", metavar="HOST:PORT", help="Of a Ray cluster, or auto for the one that this "
           "machine is part of; unless given, Ray runs here, and for this run only."),
    _scale("--workers", type=click.IntRange(min=1), metavar="W",
           help="Processes that work; unless given, as many as fit what they do."),
    _scale("--gpus-per-worker", type=click.FloatRange(min=0), metavar="G",
           help="May be a part of one."),
    _scale("--buffer", type=click.FloatRange(min=0, min_open=True), metavar="GB",
           help="Gigabytes of segments on their way, at most; 1 unless given."),
    _scale("--max-errors", type=click.IntRange(min=0), metavar="N",
           help="Stop when more segments failed."),
    _scale("--report", metavar="FILE", type=click.Path(),
           help="Write what was done, by how many and how fast, as JSON."),
    _scale("--work", metavar="FOLDER", type=click.Path(),
           help="Of this machine, for what is unfinished where the output is a URL; --resume goes "
           "on with what it finds there.  [default: in the user's cache]"),
)
NEED_A_FOLDER = ("engine", "address", "workers", "gpus_per_worker", "buffer", "max_errors",
                 "report", "work")


def is_folder(params: Mapping[str, Any], *more: str) -> bool:
    """Whether the output is a folder; if not, options that need one are refused."""
    if names_folder(params["output"]):
        return True
    for name in (*NEED_A_FOLDER, *more):
        if params[name] not in (None, False):
            raise InputError(f"--{name.replace('_', '-')} needs a folder as output: -o out/")
    return False


def crew_of(params: Mapping[str, Any], stage: Any) -> Crew:
    """Workers for the only stage, or for the one that has the GPUs."""
    return Crew(stage, params["workers"], params["threads"], params["gpus_per_worker"] or 0.0,
                params["quiet"])


def work_into_folder(ctx: click.Context, params: dict[str, Any], paths: Sequence[str],
                     crews: Sequence[Crew], made: Mapping[str, Any], signatures: Sequence[str],
                     form: InputFormat = "json", batch_size: int = BATCH) -> int:
    """Everything from the inputs to the summary; the exit code."""
    found = _shards(params, paths, form)
    engine = _engine(params)
    place = place_of(params["output"], params["work"])
    with Folder(place, found, {**made, "version": __version__}, params["resume"]) as folder:
        remaining = [shard for _, shard, _ in folder.remaining()]
        pipeline = Pipeline(folder, engine, engine.staffed(crews) if remaining else crews,
                            params["batch_size"] or batch_size, _memory(params),
                            params["on_error"] or "skip", params["max_errors"])
        progress = Progress(params["quiet"], partial(_fraction, pipeline, _size(remaining)))
        for line in signatures:
            progress.note(line)
        if place.work != place.name:
            progress.note(f"{place.name}: what is unfinished is in {place.work}")
        if params["resume"]:
            progress.note(f"{place.name}: {len(found) - len(remaining)} of {len(found)} "
                          f"shards and {folder.counts['segments']} segments finished")
        try:
            _work(ctx, pipeline, progress, params["output"])
        finally:
            if params["report"]:
                _report(params, pipeline, progress, signatures)
        return code_for(folder.counts["failed"] + len(pipeline.broken))


def _shards(params: Mapping[str, Any], paths: Sequence[str], form: InputFormat) -> list[Shard]:
    extension = ".txt" if params.get("form") == "text" else ".jsonl"
    found = shards(expand(paths), extension, form)
    check_files([*(shard.place for shard in found), params["config"]],
                [*(os.path.join(params["output"], shard.output) for shard in found),
                 params["report"]])
    return found


def _work(ctx: click.Context, pipeline: Pipeline, progress: Progress, output: str) -> None:
    try:
        with summing_up(ctx, progress, output):
            for done in pipeline.run():
                progress.count(**done.counts)
                progress.advance(done.segments, len(done.failures))
    finally:
        _summarise(pipeline, progress)


def _engine(params: Mapping[str, Any]) -> Engine:
    if params["engine"] == "ray":
        from minrisk.engine.ray import Ray  # here, for it is an extra, and slow to import

        return Ray(params["address"], _memory(params))
    if params["address"]:
        raise InputError("--address is of a Ray cluster; give --engine ray")
    return Local()


def _memory(params: Mapping[str, Any]) -> int:
    return int((params["buffer"] or 1) * _GB)


def _size(remaining: Sequence[Shard]) -> int:
    return sum(Input(shard.place).size or 0 for shard in remaining)


def _fraction(pipeline: Pipeline, size: int) -> float | None:
    return min(1.0, sum(pipeline.read.values()) / size) if size else None


def _summarise(pipeline: Pipeline, progress: Progress) -> None:
    """Where the time went."""
    busy = _utilisation(pipeline, progress)
    stages = [f"{name} {seconds:.1f} s" for name, seconds in pipeline.seconds.items()]
    shares = [f"{crew.workers} workers for {crew.stage.name} were busy {busy[crew.stage.name]:.0%} "
              "of the time" for crew in pipeline.crews if crew.stage.name in busy]
    if stages:
        progress.note("; ".join([", ".join(stages), *shares]))


def _utilisation(pipeline: Pipeline, progress: Progress) -> dict[str, float]:
    return {crew.stage.name: pipeline.seconds[crew.stage.name] / (crew.workers * progress.seconds)
            for crew in pipeline.crews if crew.workers and crew.stage.name in pipeline.seconds}


def _report(params: Mapping[str, Any], pipeline: Pipeline, progress: Progress,
            signatures: Sequence[str]) -> None:
    crews = pipeline.crews
    found = {
        "signatures": list(signatures),
        "engine": params["engine"] or "local",
        "workers": {crew.stage.name: crew.workers for crew in crews},
        "threads": {crew.stage.name: crew.threads for crew in crews},
        "this_run": {"segments": progress.done, "failed": progress.failed, **progress.counts,
                     "seconds": progress.seconds, "shards_broken": len(pipeline.broken)},
        "folder": {**pipeline.folder.counts, "is_finished": pipeline.folder.is_finished},
        "seconds_of_stages": dict(pipeline.seconds),
        "utilisation": _utilisation(pipeline, progress),
        "driver_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    with Output(params["report"]) as output:
        output.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
