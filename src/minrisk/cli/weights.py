"""The options that say how references count."""

from __future__ import annotations

from typing import Any

import click

from minrisk._core.errors import InputError
from minrisk.cli.shared import option, together
from minrisk.io.record import Weighting

weight_options = together(
    option("Method", "--weights", default="auto", show_default=True,
           type=click.Choice(["auto", "uniform", "logprobs", "length-normalised"]),
           help="Weights of the references: the field `weights` where there is one, times `counts` "
           "(auto); equal for all samples; the probability of each distinct text by the field "
           "`logprobs`, whatever its count (model-based MBR); or the same with log-probabilities "
           "over the field `lengths` (in characters where there is none)."),
    option("Method", "--weights-temperature", type=click.FloatRange(min=0, min_open=True),
           metavar="T", help="Divides log-probabilities: above 1, references count more alike."),
)


def weighting_of(params: dict[str, Any]) -> Weighting:
    by, temperature = params["weights"], params["weights_temperature"]
    if temperature is None:
        return Weighting(by)
    if by == "uniform" or (by == "auto" and not params.get("reference_lprobs")):
        raise InputError(f"--weights-temperature {temperature} does nothing with --weights {by}; "
                         "choose logprobs or length-normalised")
    return Weighting(by, temperature)
