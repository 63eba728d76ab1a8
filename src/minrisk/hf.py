"""MBR decoding inside transformers' own `generate` and pipelines.

    model.generate(**inputs, custom_generate=minrisk.hf.generate, num_samples=256, metric="chrf")

`generate` prepares everything as for sampling; this draws the samples by shared prefixes and
returns the one with the highest expected utility. Nothing that the caller owns is changed.

transformers keeps the keyword `tokenizer` to itself (up to 5.22 at least). The tokenizer is then
the one that lies where the model came from; another one is bound to the function beforehand:
`custom_generate=functools.partial(minrisk.hf.generate, tokenizer=tokenizer)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from minrisk._core.decoding import METRIC, STRATEGY, make_strategy
from minrisk._core.errors import InputError, needs_extra
from minrisk._core.metric import AnyMetric
from minrisk._core.sampler import Sample
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy

with needs_extra("minrisk.hf", "hf"):
    import torch
    from torch import Tensor
    from transformers import GenerationConfig
    from transformers.utils.generic import ModelOutput

    from minrisk._torch.loading import load_tokenizer
    from minrisk.samplers.hf.engine import Engine, SampledSequence
    from minrisk.samplers.hf.prefixes import TokenizedPrompt
    from minrisk.samplers.hf.truncation import Truncation


@dataclass
class MbrOutput(ModelOutput):  # type: ignore[misc,unused-ignore]
    """What `generate` returns with `return_dict_in_generate=True`."""

    sequences: Tensor | None = None  # as without it
    samples: list[list[Sample]] | None = None  # of each source, in the order first drawn
    utilities: list[Any] | None = None  # (distinct samples,) of each source
    rankings: list[Ranking] | None = None


def generate(
    model: Any,
    input_ids: Tensor,
    logits_processor: Iterable[Any] = (),
    stopping_criteria: Iterable[Any] = (),
    generation_config: GenerationConfig | None = None,
    inputs_tensor: Tensor | None = None,
    *,
    tokenizer: Any = None,
    num_samples: int = 256,
    metric: str | AnyMetric | None = None,
    strategy: str | Strategy = STRATEGY,
    strategy_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    **model_kwargs: Any,
) -> Tensor | MbrOutput:
    """The best of `num_samples` for each row of the batch, by MBR; or a dictionary with all.

    Sampling follows the generation config as `generate(do_sample=True)` does: `epsilon_cutoff`,
    `top_k` (50 unless told otherwise), `temperature` and so on. `num_return_sequences` asks for
    the best few. The samples depend on `seed` alone, or without one on torch's own generator:
    `torch.manual_seed` then fixes them, as it does for `generate`.
    """
    config = model.generation_config if generation_config is None else generation_config
    _check(config, num_samples, logits_processor, stopping_criteria)
    words = _tokenizer(model) if tokenizer is None else tokenizer
    prefixes, prompts = _prompts(model, input_ids, inputs_tensor, model_kwargs)
    limit = config.max_length - input_ids.shape[1]
    drawn = Engine(model, config, _truncation(config), limit).draw(
        prompts, num_samples, _next_seed() if seed is None else seed, range(len(prompts)))
    segments = [_segment(words, prompt, own, place)
                for place, (prompt, own) in enumerate(zip(prompts, drawn, strict=True))]
    rankings = _strategy(strategy, metric, strategy_options).rank(segments)
    sequences = _sequences(prefixes, drawn, rankings, config, input_ids.device)
    if not config.return_dict_in_generate:
        return sequences
    return MbrOutput(sequences=sequences, samples=_samples(segments, drawn),
                     utilities=[ranking.utility for ranking in rankings], rankings=rankings)


def _next_seed() -> int:
    """From the generator that `torch.manual_seed` sets, so that two calls differ."""
    return int(torch.randint(2**63 - 1, ()))


def _check(config: Any, num_samples: int, processors: Iterable[Any],
           criteria: Iterable[Any]) -> None:
    if num_samples < 1:
        raise InputError(f"num_samples {num_samples}; 1 at least is wanted")
    foreign = [type(one).__name__ for one in (*processors, *criteria)
               if not type(one).__module__.startswith("transformers.")]
    off = {"typical_p": (None, 1.0), "top_h": (None,)}
    foreign += [name for name, values in off.items() if getattr(config, name, None) not in values]
    if foreign:
        raise InputError(f"{', '.join(foreign)}: not known to sampling by shared prefixes; "
                         "leave it out, or sample with `generate` and call minrisk.decode")


@lru_cache(maxsize=4)
def _tokenizer_of(name: str) -> Any:
    try:
        if not name:
            raise InputError("the model came from nowhere")
        return load_tokenizer(name)
    except InputError as error:
        raise InputError(
            f"found no tokenizer where the model came from ({error}), and transformers "
            "does not pass `tokenizer` on; bind it: custom_generate="
            "functools.partial(minrisk.hf.generate, tokenizer=tokenizer)") from None


def _tokenizer(model: Any) -> Any:
    return _tokenizer_of(model.name_or_path)


def _prompts(model: Any, input_ids: Tensor, inputs: Tensor | None,
             kwargs: Mapping[str, Any]) -> tuple[list[list[int]], list[TokenizedPrompt]]:
    """What each text begins with in the output, and what the model is given."""
    if inputs is None or inputs.dim() != 2 or inputs.is_floating_point():
        raise InputError("minrisk.hf.generate needs input_ids; other inputs are not known to it")
    copies = len(input_ids) // len(inputs)  # one for each beam or returned sequence
    prefixes: list[list[int]] = input_ids[::copies].tolist()
    mask = kwargs.get("attention_mask")
    masks = torch.ones_like(inputs) if mask is None else mask[::copies]
    given = [tuple(row[kept.bool()].tolist()) for row, kept in zip(inputs, masks, strict=True)]
    if model.config.is_encoder_decoder:
        return prefixes, [TokenizedPrompt(source, tuple(prefix))
                          for source, prefix in zip(given, prefixes, strict=True)]
    return prefixes, [TokenizedPrompt((), prompt) for prompt in given]


def _truncation(config: Any) -> Truncation:
    return Truncation(temperature=config.temperature or 1.0, top_k=config.top_k or 0,
                      top_p=config.top_p or 1.0, min_p=config.min_p or 0.0,
                      epsilon=config.epsilon_cutoff or 0.0, eta=config.eta_cutoff or 0.0)


def _strategy(strategy: str | Strategy, metric: str | AnyMetric | None,
              options: Mapping[str, Any] | None) -> Strategy:
    if isinstance(strategy, str):
        return make_strategy(strategy, METRIC if metric is None else metric, **options or {})
    if metric is not None or options:
        raise InputError(f"the strategy {strategy.name!r} has its metric and options already; "
                         "give it by name, or these to its constructor")
    return strategy


def _segment(tokenizer: Any, prompt: TokenizedPrompt, drawn: Sequence[SampledSequence],
             place: int) -> Segment:
    texts = tokenizer.batch_decode([one.tokens for one in drawn], skip_special_tokens=True)
    source = tokenizer.decode(prompt.source or prompt.prefix, skip_special_tokens=True)
    return Segment(texts, source=source, index=place, counts=[one.count for one in drawn])


def _samples(segments: Sequence[Segment],
             drawn: Sequence[Sequence[SampledSequence]]) -> list[list[Sample]]:
    return [[Sample(text, one.count, one.logprob, one.truncated_logprob, one.tokens)
             for text, one in zip(segment.hypotheses, own, strict=True)]
            for segment, own in zip(segments, drawn, strict=True)]


def _sequences(prefixes: Sequence[list[int]], drawn: Sequence[Sequence[SampledSequence]],
               rankings: Sequence[Ranking], config: Any, device: Any) -> Tensor:
    """(B * num_return_sequences, T) token ids, padded at the end."""
    rows = [[*prefix, *own[place].tokens]
            for prefix, own, ranking in zip(prefixes, drawn, rankings, strict=True)
            for place in _best(ranking, config.num_return_sequences or 1)]
    pad = config.pad_token_id if config.pad_token_id is not None else config.eos_token_id
    pad = pad[0] if isinstance(pad, list) else pad
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=device)


def _best(ranking: Ranking, count: int) -> list[int]:
    """The first of them; the last again where there are too few distinct samples."""
    order: list[int] = ranking.order[:count].tolist()
    return order + order[-1:] * (count - len(order))
