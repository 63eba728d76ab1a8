"""Reward models, which judge a hypothesis by its source alone: a local model or a server.

This module does not import torch, so that the metric can be listed where it is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.groups import WeightedRows
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk.metrics.neural import NeuralModel, ReferenceFree
from minrisk.openai.client_options import KEY, server_address


class RewardScorer(Protocol):
    """A reward model, local or on a server."""

    def quality(self, hyps: Sequence[str], source: str) -> Floats: ...


@dataclass(frozen=True)
class Reward(ReferenceFree, NeuralModel):
    """A reward model, which judges by the source alone: a transformers classifier or a server.

    A sequence-classification model of transformers: the reward is the logit of its only label, or
    the probability of one of several. Source and hypothesis are a chat if the tokenizer has a chat
    template, otherwise a pair of texts. Code that comes with a model is never run. With `endpoint`,
    a server's /rerank scores them instead (vLLM, llama.cpp, Infinity, Jina, Cohere): the source is
    the query, and hypotheses are the documents. Needs minrisk[neural], or minrisk[openai] for a
    server.

    Args:
        model: hub name or folder of the model; with `endpoint`, its name on the server.
        dtype: number format; "auto" is bf16 on CUDA and fp32 elsewhere.
        device: torch device, such as "cuda", "mps" or "cpu"; "auto" is a GPU if there is one.
        tokens: maximum number of tokens per batch [default: depends on the device].
        label: name of the label whose probability is the reward, for a model with several labels.
        chat: use the tokenizer's chat template, if it has one.
        endpoint: address of a server with /rerank that computes the rewards instead, such as
            "http://localhost:8000/v1".
        timeout: time limit for a response of the server, in seconds.
        retries: number of retries after a transient error.
        key_variable: environment variable that holds the server's key.

    Raises:
        InputError: when it is used, if the model is not a classifier, or the server returns no
            scores.
        MissingExtra: when it is used, if torch or transformers (or aiohttp) is not installed.

    >>> import minrisk
    >>> reward = minrisk.Reward("OpenAssistant/reward-model-deberta-v3-large-v2")
    >>> minrisk.MBRBoN("chrf", reward, beta=0.1).quality.name
    'reward'
    >>> minrisk.decode(["Sure!", "No."], strategy=minrisk.Rerank(reward),
    ...                source="Please help me.")  # doctest: +SKIP
    """

    name = "reward"
    cost = "n runs of the model"

    label: str | None = option(None)
    chat: bool = option(True)
    endpoint: str | None = option(None)
    timeout: float = option(600.0, gt=0, affects_results=False)
    retries: int = option(6, ge=0, affects_results=False)
    key_variable: str = option(KEY, affects_results=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.endpoint is not None:
            server_address(self.endpoint, self.name)

    def prepare(self) -> None:
        self._scorer  # noqa: B018 - which loads the model

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, list(texts))

    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        """(H,) the reward of each hypothesis."""
        (text,) = self._checked(source, hyps).listed()
        return self._scorer.quality(hyps.listed(), text)

    @lazy
    def _scorer(self) -> RewardScorer:
        if self.endpoint is not None:
            from minrisk.metrics.neural.reward.server import RewardServer

            return RewardServer(self)
        with needs_extra("a reward model", "neural"):
            from minrisk.metrics.neural.reward.classifier import RewardClassifier
        return RewardClassifier(self)
