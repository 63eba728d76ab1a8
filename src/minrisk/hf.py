"""MBR decoding inside transformers' own `generate` and pipelines.

    model.generate(**inputs, custom_generate=minrisk.hf.generate, num_samples=256, metric="chrf")

`generate` of transformers prepares the inputs; this function samples with shared prefixes and
returns the sample with the highest expected utility. It modifies no object of the caller.

transformers (up to 5.22 at least) does not pass on the keyword `tokenizer`. The tokenizer is then
loaded from the model's name or folder; to use another one, bind it to the function:
`custom_generate=functools.partial(minrisk.hf.generate, tokenizer=tokenizer)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from minrisk._core.decoding import MetricLike, StrategyLike, add_texts, resolve_strategy
from minrisk._core.errors import InputError, needs_extra
from minrisk._core.sampler import Sample
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import proposes

with needs_extra("minrisk.hf", "hf"):
    import torch
    from torch import Tensor
    from transformers import GenerationConfig
    from transformers.utils.generic import ModelOutput

    from minrisk._torch.loading import load_tokenizer
    from minrisk.samplers.hf.engine import SampledSequence, SamplingEngine
    from minrisk.samplers.hf.prefixes import TokenizedPrompt
    from minrisk.samplers.hf.truncation import Truncation


@dataclass
class MbrOutput(ModelOutput):  # type: ignore[misc,unused-ignore]
    """The result of `generate` with `return_dict_in_generate=True`.

    Attributes:
        sequences: (B * num_return_sequences, T) token ids.
        samples: the distinct samples of each row of the batch, in sampling order.
        utilities: the utility of each distinct sample, for each row of the batch.
        rankings: the ranking of the samples of each row of the batch.
    """

    sequences: Tensor | None = None
    samples: list[list[Sample]] | None = None
    utilities: list[Any] | None = None
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
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    **model_kwargs: Any,
) -> Tensor | MbrOutput:
    """Sample and return the best sample of each row of the batch, by MBR decoding.

    It is called by `generate(custom_generate=minrisk.hf.generate)`. Sampling follows the generation
    config like `generate(do_sample=True)`: `epsilon_cutoff`, `top_k` [default: 50], `temperature`
    and so on. `num_return_sequences` is the number of best samples to return.

    Args:
        model, input_ids, inputs_tensor, generation_config: passed by `generate` of transformers.
        logits_processor, stopping_criteria, model_kwargs: likewise.
        tokenizer: the tokenizer [default: loaded from the model's name or folder].
        num_samples: number of samples of each row.
        metric: a metric, its name or class, or a function of hypothesis and reference
            [default: chrF].
        strategy: a strategy, its name or class [default: standard].
        strategy_options: options of a strategy that is given by name or class.
        seed: seed of the samples [default: drawn from torch's generator (`torch.manual_seed`)].

    Returns:
        Token ids, or an `MbrOutput` if the config has `return_dict_in_generate`.

    Raises:
        InputError: if an option of the config is not supported, or there is no tokenizer.

    With a seq2seq model of transformers and its tokenizer:

    >>> import minrisk.hf
    >>> inputs = tokenizer(["the cat sat", "a dog ran"], return_tensors="pt", padding=True)
    >>> found = model.generate(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask,
    ...                        custom_generate=minrisk.hf.generate, num_samples=16,
    ...                        epsilon_cutoff=0.02, return_dict_in_generate=True)
    >>> texts = tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
    >>> texts == [ranking.text for ranking in found.rankings]
    True
    """
    config = model.generation_config if generation_config is None else generation_config
    _check(config, num_samples, logits_processor, stopping_criteria)
    chosen = resolve_strategy(strategy, metric, dict(strategy_options or {}))
    if proposes(chosen):
        raise InputError(f"strategy {chosen.name!r} may return a text that is not a sample, but "
                         "`generate` returns the tokens of samples; sample first, then call "
                         "minrisk.decode")
    words = _tokenizer_of(model.name_or_path) if tokenizer is None else tokenizer
    prefixes, prompts = _prompts(model, input_ids, inputs_tensor, model_kwargs)
    limit = config.max_length - input_ids.shape[1]
    samples = SamplingEngine(model, config, _truncation(config), limit).sample(
        prompts, num_samples, _next_seed() if seed is None else seed, range(len(prompts)))
    segments = [_segment(words, prompt, own, index)
                for index, (prompt, own) in enumerate(zip(prompts, samples, strict=True))]
    rankings = [add_texts(ranking, segment, chosen) for ranking, segment
                in zip(chosen.rank(segments), segments, strict=True)]
    sequences = _sequences(prefixes, samples, rankings, config, input_ids.device)
    if not config.return_dict_in_generate:
        return sequences
    return MbrOutput(sequences=sequences, samples=_samples(segments, samples),
                     utilities=[ranking.utility for ranking in rankings], rankings=rankings)


def _next_seed() -> int:
    """A seed from torch's own generator, so that two calls differ."""
    return int(torch.randint(2**63 - 1, ()))


def _check(config: Any, num_samples: int, processors: Iterable[Any],
           criteria: Iterable[Any]) -> None:
    if num_samples < 1:
        raise InputError(f"num_samples must be at least 1; got {num_samples}")
    foreign = [type(one).__name__ for one in (*processors, *criteria)
               if not type(one).__module__.startswith("transformers.")]
    off = {"typical_p": (None, 1.0), "top_h": (None,)}
    foreign += [name for name, values in off.items() if getattr(config, name, None) not in values]
    if foreign:
        raise InputError(f"{', '.join(foreign)}: not supported by sampling with shared prefixes; "
                         "leave it out, or sample with `generate` and call minrisk.decode")


@lru_cache(maxsize=4)
def _tokenizer_of(name: str) -> Any:
    try:
        if not name:
            raise InputError("the model has no name")
        return load_tokenizer(name)
    except InputError as error:
        raise InputError(
            f"found no tokenizer for the model ({error}), and transformers does not pass on "
            "`tokenizer`; bind it: custom_generate=functools.partial(minrisk.hf.generate, "
            "tokenizer=tokenizer)") from None


def _prompts(model: Any, input_ids: Tensor, inputs: Tensor | None,
             kwargs: Mapping[str, Any]) -> tuple[list[list[int]], list[TokenizedPrompt]]:
    """The prefix of each output sequence, and the tokenized prompts."""
    if inputs is None or inputs.dim() != 2 or inputs.is_floating_point():
        raise InputError("minrisk.hf.generate needs input_ids; other inputs are not supported")
    copies = len(input_ids) // len(inputs)  # generate() repeats rows by beam or returned sequence
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


def _segment(tokenizer: Any, prompt: TokenizedPrompt, samples: Sequence[SampledSequence],
             index: int) -> Segment:
    texts = tokenizer.batch_decode([one.tokens for one in samples], skip_special_tokens=True)
    source = tokenizer.decode(prompt.source or prompt.prefix, skip_special_tokens=True)
    return Segment(texts, source=source, position=index, counts=[one.count for one in samples])


def _samples(segments: Sequence[Segment],
             samples: Sequence[Sequence[SampledSequence]]) -> list[list[Sample]]:
    return [[Sample(text, one.count, one.logprob, one.truncated_logprob, one.tokens)
             for text, one in zip(segment.hypotheses, own, strict=True)]
            for segment, own in zip(segments, samples, strict=True)]


def _sequences(prefixes: Sequence[list[int]], samples: Sequence[Sequence[SampledSequence]],
               rankings: Sequence[Ranking], config: Any, device: Any) -> Tensor:
    """(B * num_return_sequences, T) token ids, padded at the end."""
    rows = [[*prefix, *own[best].tokens]
            for prefix, own, ranking in zip(prefixes, samples, rankings, strict=True)
            for best in _best(ranking, config.num_return_sequences or 1)]
    pad = config.pad_token_id if config.pad_token_id is not None else config.eos_token_id
    pad = pad[0] if isinstance(pad, list) else pad
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=device)


def _best(ranking: Ranking, count: int) -> list[int]:
    """The best `count` rows; the last is repeated if there are too few distinct samples."""
    order: list[int] = ranking.order[:count].tolist()
    return order + order[-1:] * (count - len(order))
