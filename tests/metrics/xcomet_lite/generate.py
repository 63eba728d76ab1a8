"""Write a tiny XCOMET-lite and its own scores (see README.md).

Run in an environment with mbrs 0.1.8, which has the model's class, transformers 4 and
sentencepiece; nothing is downloaded.
"""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import importlib.metadata
import io
import json
import warnings
from pathlib import Path

import sentencepiece
import torch
import transformers
from mbrs.metrics.xcomet import XCOMETLiteMetric

DATA = Path(__file__).resolve().parent
COMET = json.loads((DATA.parent / "comet" / "golden.json").read_text("utf-8"))
TEXTS, GRID = COMET["texts"], COMET["grid"]
HYPS, REFS, SOURCES = ([TEXTS[i] for i in GRID[k]] for k in ("hypotheses", "references", "sources"))
EDGES = COMET["edges"][:2]  # the others spell special tokens out
PIECES = 300


def write_encoder(folder: Path) -> None:
    """As mDeBERTa's: the configuration, and a model of SentencePiece for a tokenizer."""
    folder.mkdir(exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=PIECES, pad_id=0, bos_id=1,
        eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]",
        unk_piece="[UNK]", character_coverage=0.98, num_threads=1, hard_vocab_limit=False,
        minloglevel=2)
    (folder / "spm.model").write_bytes(model.getvalue())
    transformers.DebertaV2Config(
        vocab_size=PIECES + 20, hidden_size=16, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=24, max_position_embeddings=66, type_vocab_size=0, pad_token_id=0,
        relative_attention=True, max_relative_positions=-1, position_buckets=8,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p",
        position_biased_input=False, layer_norm_eps=1e-7,
    ).save_pretrained(folder)
    settings = {"do_lower_case": False, "vocab_type": "spm"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")


@torch.no_grad()
def write_model(folder: Path) -> None:
    """config.json and model.safetensors, as on the hub."""
    torch.manual_seed(1)
    model = XCOMETLiteMetric(pretrained_model="encoder", word_layer=2, hidden_sizes=(24, 12))
    for name, own in model.named_parameters():
        own.copy_((1 if name.endswith("LayerNorm.weight") else 0) + 0.3 * torch.randn_like(own))
    model.save_pretrained(folder)
    (folder / "README.md").unlink()


@torch.no_grad()
def scores(model: XCOMETLiteMetric, samples: list[dict[str, str]]) -> list[float]:
    """The final scores of batches of one."""
    steps = [model.predict_step(model.prepare_sample([own], stage="predict")) for own in samples]
    return [float(f"{step.scores.item():.9g}") for step in steps]


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    os.chdir(DATA)  # where the encoder's name leads to its files
    write_encoder(Path("encoder"))
    write_model(Path("model"))
    model = XCOMETLiteMetric.from_pretrained("model").eval()
    packages = ("mbrs", "unbabel-comet", "torch", "transformers", "sentencepiece")
    hyps = [*HYPS, *EDGES]
    document = {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "hypotheses": hyps, "references": REFS, "sources": SOURCES,
        "token_ids": model.encoder.tokenizer(hyps)["input_ids"],
        "scores": [[scores(model, [{"src": s, "mt": h, "ref": r} for r in REFS]) for h in hyps]
                   for s in SOURCES],
        "quality": [scores(model, [{"src": s, "mt": h} for h in hyps]) for s in SOURCES],
    }
    (DATA / "golden.json").write_text(json.dumps(document, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
