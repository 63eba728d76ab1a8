"""Write bleurt-pytorch's own scores for a tiny random model (see README.md).

Run in an environment with bleurt-pytorch 0.0.1, transformers 4 and sentencepiece; nothing is
downloaded.
"""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import importlib.metadata
import io
import json
from pathlib import Path

import sentencepiece
import torch
import transformers
from bleurt_pytorch import BleurtConfig, BleurtForSequenceClassification, BleurtTokenizer

DATA = Path(__file__).parent
COMET = json.loads((DATA.parent / "comet" / "golden.json").read_text("utf-8"))
TEXTS, GRID = [*COMET["texts"], *COMET["edges"]], COMET["grid"]
HYPS, REFS = ([TEXTS[i] for i in GRID[k]] for k in ("hypotheses", "references"))
PIECES = 300


def write_tokenizer(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=PIECES, pad_id=0, unk_id=1,
        bos_id=-1, eos_id=-1, pad_piece="[PAD]", unk_piece="[UNK]",
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], normalization_rule_name="identity",
        character_coverage=1.0, num_threads=1, hard_vocab_limit=False, minloglevel=2)
    (folder / "spm.model").write_bytes(model.getvalue())


def write_model(folder: Path) -> None:
    """With pytorch_model.bin, as on the hub."""
    torch.manual_seed(1)
    model = BleurtForSequenceClassification(BleurtConfig(
        vocab_size=PIECES + 20, embedding_size=12, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=24, max_position_embeddings=256,
        architectures=["BleurtForSequenceClassification"]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    model.save_pretrained(folder, safe_serialization=False)


@torch.no_grad()
def score(model, tokenizer, ref: str, hyp: str) -> float:
    """One pair in a batch of its own."""
    found = model(**tokenizer([ref], [hyp], return_tensors="pt")).logits
    return float(f"{found.item():.9g}")


def main() -> None:
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder = DATA / "model"
    write_tokenizer(folder)
    write_model(folder)
    model = BleurtForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = BleurtTokenizer.from_pretrained(folder)
    packages = ("bleurt-pytorch", "torch", "transformers", "sentencepiece")
    hyps = [*HYPS, *COMET["edges"][:2]]  # the others spell special tokens out
    document = {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "hypotheses": hyps, "references": REFS,
        "scores": [[score(model, tokenizer, ref, hyp) for ref in REFS] for hyp in hyps],
    }
    (DATA / "golden.json").write_text(json.dumps(document, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
