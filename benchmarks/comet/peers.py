"""How others compute COMET MBR, each as a plain loop on the same weights.

What is told apart: the numbers' type, how texts are batched, and how pairs are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from models import Shape
from safetensors.torch import load_file
from torch import Tensor, nn


class Model:
    """The official computation: all hidden states mixed, the mean over tokens, six features."""

    def __init__(self, folder: Path, shape: Shape, device: str, dtype: torch.dtype) -> None:
        from transformers import XLMRobertaConfig, XLMRobertaModel

        weights = load_file(folder / "model.safetensors")
        config = XLMRobertaConfig.from_pretrained(folder / "encoder")
        self.encoder = XLMRobertaModel(config, add_pooling_layer=False)
        self.encoder.load_state_dict({name.removeprefix("encoder.model."): tensor for name, tensor
                                      in weights.items() if name.startswith("encoder.")},
                                     strict=False)
        self.encoder.to(device, dtype).eval()
        self.estimator = estimator(weights).to(device, dtype)
        self.mix = shape.mix
        self.device, self.dtype = device, dtype

    def embed(self, ids: Sequence[np.ndarray], batch: int) -> Tensor:
        found = [self._embed(ids[i : i + batch]) for i in range(0, len(ids), batch)]
        return torch.vstack(found)

    def _embed(self, ids: Sequence[np.ndarray]) -> Tensor:
        width = max(map(len, ids))
        tokens = torch.tensor([[*own, *[1] * (width - len(own))] for own in ids]).to(self.device)
        mask = tokens != 1
        states = self.encoder(input_ids=tokens, attention_mask=mask.long(),
                              output_hidden_states=True).hidden_states
        if self.mix:
            share = 1 / len(states)
            hidden = sum(share * state for state in states)
        else:
            hidden = states[-1]
        weights = mask[:, :, None].to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1)

    def estimate(self, src: Tensor, mt: Tensor, ref: Tensor) -> Tensor:
        return estimate(self.estimator, src, mt, ref)


def estimate(network: nn.Module, src: Tensor, mt: Tensor, ref: Tensor) -> Tensor:
    features = torch.cat([mt, ref, mt * ref, (mt - ref).abs(), mt * src, (mt - src).abs()], 1)
    return network(features)[:, 0]


def estimator(weights: Mapping[str, Tensor]) -> nn.Sequential:
    """The layers one after the other, as a checkpoint names them."""
    own = {name.removeprefix("estimator.ff."): tensor for name, tensor in weights.items()
           if name.startswith("estimator.")}
    layers: list[nn.Module] = []
    for place in sorted({int(name.split(".")[0]) for name in own}):
        width, units = own[f"{place}.weight"].shape
        layers += [nn.Linear(units, width), nn.Tanh(), nn.Identity()]
    network = nn.Sequential(*layers[:-2])  # nothing follows the last
    network.load_state_dict(own)
    return network.eval()


@dataclass(frozen=True)
class Peer:
    """One way: its type of numbers, its batches of texts, and its pairs."""

    name: str
    dtype: torch.dtype
    batch: int
    triples: bool  # gathered triples in batches, rather than one row of the matrix at a time

    @torch.inference_mode()
    def exact(self, model: Model, ids: Sequence[np.ndarray], source: np.ndarray) -> Tensor:
        embeddings = model.embed(ids, self.batch)
        src = model.embed([source], 1)
        if self.triples:
            return self.by_triples(model, embeddings, embeddings, src)
        count = len(embeddings)
        sources = src.repeat(count, 1)
        rows = [model.estimate(sources, own.repeat(count, 1), embeddings).float().mean()
                for own in embeddings]
        return torch.stack(rows).cpu()

    @torch.inference_mode()
    def aggregate(self, model: Model, ids: Sequence[np.ndarray], source: np.ndarray) -> Tensor:
        return self.by_mean(model, model.embed(ids, self.batch), model.embed([source], 1))

    @torch.inference_mode()
    def to_fine(self, model: Model, ids: Sequence[np.ndarray], source: np.ndarray,
                keep: int) -> Tensor:
        """(keep,) exact utilities of the best by aggregation."""
        embeddings, src = model.embed(ids, self.batch), model.embed([source], 1)
        best = self.by_mean(model, embeddings, src).topk(keep).indices
        return self.by_triples(model, embeddings[best.to(embeddings.device)], embeddings, src)

    def by_mean(self, model: Model, embeddings: Tensor, src: Tensor) -> Tensor:
        mean = embeddings.mean(0, keepdim=True)
        size = self.batch if self.triples else len(embeddings)
        scores = [model.estimate(src.repeat(len(own), 1), own, mean.repeat(len(own), 1))
                  for own in embeddings.split(size)]
        return torch.cat(scores).float().cpu()

    def by_triples(self, model: Model, hyps: Tensor, refs: Tensor, src: Tensor) -> Tensor:
        """(H,) gathered triples of source, hypothesis and reference, so many at a time."""
        count = len(refs)
        scores = [model.estimate(src.expand(len(some), -1), hyps[some // count],
                                 refs[some % count])
                  for some in _numbers(len(hyps) * count, self.batch, model.device)]
        return torch.cat(scores).view(len(hyps), count).mean(1).cpu()


def _numbers(count: int, size: int, device: str) -> Iterator[Tensor]:
    return iter(torch.arange(count, device=device).split(size))


PAPER = Peer("the paper's scripts", torch.float32, 128, triples=True)
MBRS = Peer("mbrs", torch.bfloat16, 64, triples=False)
COMET_MBR = Peer("comet-mbr", torch.float16, 32, triples=False)
