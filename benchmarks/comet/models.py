"""A random model of a published shape, written as a COMET folder, and texts of known length."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

WORDS = 20000


@dataclass(frozen=True)
class Shape:
    name: str
    layers: int
    width: int
    heads: int
    hidden: tuple[int, ...]
    mix: bool

    @property
    def parameters_per_token(self) -> int:
        """Of the layers: what every token is multiplied by."""
        return self.layers * 12 * self.width**2


COMET_22 = Shape("COMET-22", 24, 1024, 16, (3072, 1024), mix=True)
SMALL = Shape("6 layers of 384, as a small Cometinho", 6, 384, 12, (384,), mix=False)


def write(shape: Shape, folder: Path, seed: int = 0) -> None:
    """As `minrisk comet convert` would: weights, hyperparameters, the encoder's own files."""
    from transformers import XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(seed)
    config = XLMRobertaConfig(
        vocab_size=250002, hidden_size=shape.width, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=4 * shape.width,
        max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5,
        # larger than in training, so that random texts differ as real ones do
        initializer_range=0.04)
    encoder = XLMRobertaModel(config, add_pooling_layer=False)
    weights = {f"encoder.model.{name}": tensor for name, tensor in encoder.state_dict().items()}
    if shape.mix:
        weights["layerwise_attention.gamma"] = torch.ones(1)
        for layer in range(shape.layers + 1):
            weights[f"layerwise_attention.scalar_parameters.{layer}"] = torch.zeros(1)
    units = 6 * shape.width
    for place, width in enumerate((*shape.hidden, 1)):
        weights[f"estimator.ff.{3 * place}.weight"] = torch.randn(width, units) * 2 / units**0.5
        weights[f"estimator.ff.{3 * place}.bias"] = torch.randn(width) * 0.1
        units = width
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()},
              folder / "model.safetensors")
    (folder / "minrisk.json").write_text(json.dumps({
        "class_identifier": "regression_metric", "encoder_model": "XLM-RoBERTa",
        "layer": "mix" if shape.mix else shape.layers, "layer_norm": False,
        "hidden_sizes": shape.hidden, "activations": "Tanh"}))
    config.save_pretrained(folder / "encoder")
    _write_tokenizer(folder / "encoder")


def _write_tokenizer(folder: Path) -> None:
    """A word is a token: the lengths of texts are then ours to choose."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    words = {word: i for i, word in enumerate([*special, *(f"w{i}" for i in range(WORDS))])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing("<s> $A </s>",
                                                  special_tokens=[("<s>", 0), ("</s>", 2)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>",
                            eos_token="</s>", unk_token="<unk>").save_pretrained(folder)


def texts(count: int, shortest: int = 25, longest: int = 64, seed: int = 0) -> list[str]:
    """Distinct texts of so many tokens, start and end included."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest + 1, count) - 2
    return [" ".join(f"w{i}" for i in rng.integers(WORDS, size=length)) for length in lengths]
