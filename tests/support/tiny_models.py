"""Tiny random models of every kind that the sampler knows, with a tokenizer of a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import GenerationConfig, PreTrainedTokenizerFast

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "en_XX", "fr_XX",
         "the", "cat", "sat", "on", "a", "mat", "dog", "ran", "to", "it", "red", "big"]
PAD, BOS, EOS = 0, 1, 2
SIZE = {"vocab_size": len(WORDS), "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
BART = {**SIZE, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32, "max_position_embeddings": 32, "decoder_start_token_id": EOS}
LLAMA = {**SIZE, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
         "max_position_embeddings": 64}
FSMT = {"langs": ["en", "fr"], "src_vocab_size": len(WORDS), "tgt_vocab_size": len(WORDS), **{
    key: value for key, value in BART.items() if key != "vocab_size"}}
T5 = {**SIZE, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 2,
      "num_heads": 2, "decoder_start_token_id": PAD}
BERT = {"vocab_size": len(WORDS), "pad_token_id": PAD, "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
GPT2 = {**SIZE, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}

SEQ2SEQ: dict[str, tuple[str, str, dict[str, Any]]] = {
    "marian": ("MarianConfig", "MarianMTModel", BART | {"decoder_start_token_id": PAD}),
    "fsmt": ("FSMTConfig", "FSMTForConditionalGeneration", FSMT),
    "m2m": ("M2M100Config", "M2M100ForConditionalGeneration", BART),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration", BART | {"scale_embedding": True}),
    "bart": ("BartConfig", "BartForConditionalGeneration", BART),
    "t5": ("T5Config", "T5ForConditionalGeneration", T5),
}
CAUSAL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA),
    "qwen": ("Qwen2Config", "Qwen2ForCausalLM", LLAMA),
    "mistral": ("MistralConfig", "MistralForCausalLM", LLAMA | {"sliding_window": None}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM",
               LLAMA | {"sliding_window": 64, "attn_logit_softcapping": 2.0,
                        "attn_implementation": "eager"}),
    "gemma": ("Gemma3TextConfig", "Gemma3ForCausalLM", LLAMA | {"sliding_window": 4}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT2),
}


CLASSIFIERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForSequenceClassification", BERT),
    "llama-classifier": ("LlamaConfig", "LlamaForSequenceClassification", LLAMA),
}


def model(kind: str) -> Any:
    """A model with weights large enough that its distributions are far from even."""
    config, cls, fields = (SEQ2SEQ | CAUSAL)[kind]
    shape = getattr(transformers, config)(**fields)
    shape.forced_eos_token_id = None  # older configs have one, which belongs to the other config
    made = _random(cls, shape)
    config = {"eos_token_id": EOS, "pad_token_id": PAD, "bos_token_id": BOS, "max_length": 12}
    if kind in SEQ2SEQ:
        config |= {"decoder_start_token_id": fields["decoder_start_token_id"],
                   "forced_eos_token_id": None if kind == "t5" else EOS,
                   "bad_words_ids": [[PAD]]}
    made.generation_config = GenerationConfig(**config)
    return made


def _random(cls: str, shape: Any) -> Any:
    torch.manual_seed(0)
    made = getattr(transformers, cls)(shape).eval()
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if weights.dim() > 1 and "position" not in name:
                weights.normal_(std=0.3)
    return made


def save_classifier(folder: Path, kind: str, labels: int = 1, template: str | None = None,
                    **fields: Any) -> str:
    """A folder with a classifier, whose labels are LABEL_0, LABEL_1 and so on."""
    config, cls, own = CLASSIFIERS[kind]
    _random(cls, getattr(transformers, config)(**own | {"num_labels": labels} | fields)
            ).save_pretrained(folder)
    words = tokenizer()
    words.model_input_names = (["input_ids", "token_type_ids", "attention_mask"] if kind == "bert"
                               else ["input_ids", "attention_mask"])
    words.chat_template = template
    words.save_pretrained(folder)
    return str(folder)


def tokenizer(ends: bool = True) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        raw.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", EOS)])
    more = "extra_special_tokens" if transformers.__version__ >= "5" else (
        "additional_special_tokens")
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", model_max_length=32, **{more: ["en_XX", "fr_XX"]})


def save(folder: Path, kind: str, template: str | None = None) -> str:
    """A folder as `from_pretrained` wants it."""
    model(kind).save_pretrained(folder)
    words = tokenizer(ends=kind in SEQ2SEQ)
    words.chat_template = template
    words.save_pretrained(folder)
    return str(folder)
