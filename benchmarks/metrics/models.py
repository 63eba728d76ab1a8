"""A folder that stands for the hub: small random models under the names of the published ones.

Both libraries find them there by their defaults, as relative paths. Their tokenizers are made of
the texts that are measured, so that lengths are about those of the real ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
import yaml
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from torch import Tensor

LAYERS, WIDTH, HEADS, HIDDEN = 2, 32, 2, (64, 32)
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "intermediate_size": 4 * WIDTH, "initializer_range": 0.2}
WORDS, PIECES = 2000, 500
MT5_WORDS, MT5_SCORE = 250112, 250089  # the size of its vocabulary, and the token that scores
SHAPE = f"{LAYERS} layers of width {WIDTH}"
ENCODER = "encoder"  # of the COMET models
COMETS: dict[str, tuple[str, int, dict[str, Any]]] = {  # class, inputs of the estimator, settings
    "Unbabel/wmt22-comet-da": ("regression_metric", 6, {"layer": "mix", "pool": "avg"}),
    "Unbabel/wmt20-comet-qe-da": ("referenceless_regression_metric", 4,
                                  {"layer": "mix", "pool": "avg"}),
    "Unbabel/wmt22-cometkiwi-da": ("unified_metric", 1, {
        "sent_layer": "mix", "input_segments": ["mt", "src"], "word_level_training": False}),
    "Unbabel/XCOMET-XL": ("xcomet_metric", 1, {
        "sent_layer": "mix", "word_layer": 1, "input_segments": ["mt", "src", "ref"]}),
}


def write_all(folder: Path, texts: Sequence[str]) -> None:
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    _write_encoder(folder / ENCODER, texts)
    for name, (kind, inputs, settings) in COMETS.items():
        _write_comet(folder / name, kind, inputs, settings)
    _write_bert(folder / "google-bert" / "bert-base-multilingual-cased", texts)
    _write_bleurt(folder / "lucadiliello" / "BLEURT-20", texts)
    _write_metricx(folder / "google", texts)


def _words(texts: Sequence[str]) -> list[str]:
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    counts = Counter(word for text in texts for word, _ in split(text))
    return [word for word, _ in counts.most_common(WORDS)]


def _write_encoder(folder: Path, texts: Sequence[str]) -> None:
    """XLM-R's configuration, and a token for each word."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    words = {word: i for i, word in enumerate([*special, *_words(texts)])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    transformers.XLMRobertaTokenizerFast(tokenizer_object=tokenizer, model_max_length=512
                                         ).save_pretrained(folder)
    transformers.XLMRobertaConfig(
        vocab_size=len(words) + 1, max_position_embeddings=514, type_vocab_size=1, **SIZES,
    ).save_pretrained(folder)


def _write_comet(folder: Path, kind: str, inputs: int, settings: dict[str, Any]) -> None:
    """A Lightning checkpoint with its hyperparameters beside it."""
    config = transformers.XLMRobertaConfig.from_pretrained(folder.parents[1] / ENCODER)
    encoder = transformers.XLMRobertaModel(config, add_pooling_layer=False)
    weights = {f"encoder.model.{name}": own for name, own in encoder.state_dict().items()}
    weights |= {f"layerwise_attention.scalar_parameters.{i}": torch.zeros(1)
                for i in range(LAYERS + 1)} | {"layerwise_attention.gamma": torch.ones(1)}
    sizes = [inputs * WIDTH, *HIDDEN, 1]
    for place, (before, after) in enumerate(pairwise(sizes)):
        weights |= _linear(f"estimator.ff.{3 * place}", before, after)
    if kind == "xcomet_metric":
        weights |= _linear("hidden2tag", WIDTH, 4)
    hparams = {"class_identifier": kind, "encoder_model": "XLM-RoBERTa",
               "pretrained_model": ENCODER, "hidden_sizes": list(HIDDEN), "layer_norm": False,
               "layer_transformation": "softmax", "train_data": [], "validation_data": [],
               **settings}
    (folder / "checkpoints").mkdir(parents=True)
    torch.save({"state_dict": weights, "hyper_parameters": hparams,
                "pytorch-lightning_version": "2.0.0"}, folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump(hparams), encoding="utf-8")


def _linear(name: str, before: int, after: int) -> dict[str, Tensor]:
    return {f"{name}.weight": torch.randn(after, before) * 2 / before**0.5,
            f"{name}.bias": torch.randn(after) * 0.1}


def _write_bert(folder: Path, texts: Sequence[str]) -> None:
    folder.mkdir(parents=True)
    letters = sorted({letter for text in texts for letter in text})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
             *dict.fromkeys([*letters, *_words(texts)]), *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False,
                                   model_max_length=512).save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(words), **SIZES)
    transformers.BertModel(config).save_pretrained(folder)


def _write_pieces(path: Path, texts: Sequence[str], **ids: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=file, vocab_size=PIECES,
            character_coverage=1.0, hard_vocab_limit=False, num_threads=1, minloglevel=2, **ids)


def _write_bleurt(folder: Path, texts: Sequence[str]) -> None:
    """RemBERT, under the names that its port to PyTorch has."""
    _write_pieces(folder / "spm.model", texts, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
                  pad_piece="[PAD]", unk_piece="[UNK]",
                  control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    shape = {**SIZES, "vocab_size": PIECES + 20, "max_position_embeddings": 512,
             "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12}
    model = transformers.RemBertForSequenceClassification(transformers.RemBertConfig(
        input_embedding_size=WIDTH, num_labels=1, **shape))
    weights = {name.replace("rembert.", "bleurt.").replace(
        "embedding_hidden_mapping_in", "embedding_projection"): own
        for name, own in model.state_dict().items()}
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(
        shape | {"model_type": "bleurt", "embedding_size": WIDTH, "num_labels": 1,
                 "architectures": ["BleurtForSequenceClassification"]}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")


def _write_metricx(folder: Path, texts: Sequence[str]) -> None:
    """mT5 with its whole vocabulary, whose end holds the token that scores."""
    prefixed = [f"source: {text} candidate: {text} reference: {text}" for text in texts]
    for name in ("mt5-large", "mt5-xl"):  # as either library wants it
        _write_pieces(folder / name / "spiece.model", prefixed, pad_id=0, eos_id=1, unk_id=2,
                      bos_id=-1)
        transformers.MT5Config().save_pretrained(folder / name)
        (folder / name / "tokenizer_config.json").write_text(json.dumps({
            "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": 0}))
    config = transformers.MT5Config(
        vocab_size=MT5_WORDS, d_model=WIDTH, d_kv=WIDTH // HEADS, d_ff=2 * WIDTH,
        num_layers=LAYERS, num_heads=HEADS)
    weights = {name: own for name, own
               in transformers.MT5ForConditionalGeneration(config).state_dict().items()
               if not name.endswith("embed_tokens.weight")}
    head = torch.zeros(MT5_WORDS, WIDTH)
    head[MT5_SCORE] = torch.rand(WIDTH) * 2
    model = folder / "metricx-24-hybrid-large-v2p6"
    model.mkdir()
    save_file(weights | {"lm_head.weight": head}, model / "model.safetensors",
              metadata={"format": "pt"})
    (model / "config.json").write_text(json.dumps(
        config.to_dict() | {"tie_word_embeddings": False}), encoding="utf-8")
