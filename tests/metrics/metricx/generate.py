"""Write MetricX's own scores for a tiny random model (see README.md).

Run in an environment with mbrs 0.1.8, which has the official model class, transformers 4 and
sentencepiece; nothing is downloaded.
"""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import importlib.metadata
import io
import json
import tempfile
from pathlib import Path

import sentencepiece
import torch
import transformers
from mbrs.metrics.metricx import MT5ForRegression
from safetensors.torch import save_file

from metricx_model import DATA, WORDS, expand

COMET = json.loads((DATA.parent / "comet" / "golden.json").read_text("utf-8"))
TEXTS, GRID = [*COMET["texts"], *COMET["edges"]], COMET["grid"]
HYPS, REFS, SOURCES = ([TEXTS[i] for i in GRID[k]] for k in ("hypotheses", "references", "sources"))
LONGEST = {"24": 1536, "23": 1024}
LONG = "a long story without an end " * 200  # cut off by both versions
PIECES = 300


def write_tokenizer(folder: Path) -> None:
    """As mT5's: pad, end and unknown are 0, 1 and 2."""
    folder.mkdir(exist_ok=True)
    model = io.BytesIO()
    words = ["source: candidate: reference: a long story without an end"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS, *words]), model_writer=model, vocab_size=PIECES,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name="identity",
        character_coverage=1.0, num_threads=1, hard_vocab_limit=False, minloglevel=2)
    (folder / "spiece.model").write_bytes(model.getvalue())
    config = transformers.MT5Config(
        vocab_size=WORDS, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4,
        tie_word_embeddings=False, architectures=["MT5ForRegression"])
    config.save_pretrained(folder)
    settings = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": 0}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")


def write_weights() -> None:
    """Only the rows of the vocabulary that matter, and the other weights."""
    torch.manual_seed(1)
    config = transformers.MT5Config.from_pretrained(DATA / "tokenizer")
    config.vocab_size = PIECES + 20
    model = transformers.MT5ForConditionalGeneration(config)
    kept = {
        name: (1 + 0.1 * torch.randn_like(own)) if "layer_norm" in name
        else 0.4 * torch.randn_like(own)
        for name, own in model.state_dict().items()
        if not name.endswith("embed_tokens.weight") and name != "lm_head.weight"
    }
    save_file({**kept, "score": 0.7 + 1.5 * torch.randn(config.d_model)},
              DATA / "weights.safetensors")


def text(version: str, source: str, hyp: str, ref: str | None) -> str:
    """As the official scripts have it, with a reference and without."""
    if ref is None:
        parts = [f"source: {source}", f"candidate: {hyp}"]
        return " ".join(parts if version == "24" else parts[::-1])
    start = f"source: {source} " if version == "24" else ""
    return f"{start}candidate: {hyp} reference: {ref}"


@torch.no_grad()
def score(model, tokenizer, version: str, source: str, hyp: str, ref: str | None) -> float:
    """One pair in a batch of its own, as the official script prepares it."""
    own = tokenizer(text(version, source, hyp, ref), max_length=LONGEST[version], truncation=True)
    ids = torch.tensor([own["input_ids"][:-1]])
    found = model(input_ids=ids, attention_mask=torch.ones_like(ids)).predictions
    return float(f"{found.item():.9g}")


def main() -> None:
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    write_tokenizer(DATA / "tokenizer")
    write_weights()
    with tempfile.TemporaryDirectory() as folder:
        expand(Path(folder))
        model = MT5ForRegression.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "tokenizer")
    packages = ("mbrs", "torch", "transformers", "sentencepiece")
    hyps = [*HYPS, *COMET["edges"][:2]]  # the others spell special tokens out
    document = {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "hypotheses": hyps, "references": REFS, "sources": SOURCES, "long": LONG,
        "scores": {v: [[[score(model, tokenizer, v, s, h, r) for r in REFS] for h in hyps]
                       for s in SOURCES] for v in LONGEST},
        "quality": {v: [[score(model, tokenizer, v, s, h, None) for h in hyps] for s in SOURCES]
                    for v in LONGEST},
        "long_scores": {v: score(model, tokenizer, v, SOURCES[0], LONG, REFS[0]) for v in LONGEST},
    }
    (DATA / "golden.json").write_text(json.dumps(document, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
