"""Write bert-score's own values for tiny random encoders (see README.md).

Run in an environment with bert-score 0.3.13 and transformers 4; nothing is downloaded. The
encoders' files are those of tests/comet/encoders, with random weights that this script saves.
"""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import argparse
import importlib.metadata
import json
import shutil
from pathlib import Path

import bert_score
import torch
import transformers
from bert_score.utils import get_idf_dict, get_tokenizer

COMET = Path(__file__).parent.parent / "comet"
GOLDEN = json.loads((COMET / "golden.json").read_text("utf-8"))
HYPS, REFS = ([GOLDEN["texts"][i] for i in GOLDEN["grid"][k]] for k in ("hypotheses", "references"))
LAYERS = {"bert": 2, "xlm-roberta": 3}
BASELINE = "LAYER,P,R,F\n0,0.1,0.2,0.3\n1,0.2,0.3,0.4\n2,0.3,0.1,0.2\n3,0.15,0.25,0.35\n"


def write_model(kind: str, folder: Path) -> None:
    """An encoder with random weights beside its configuration and tokenizer."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(COMET / "encoders" / kind, folder)
    torch.manual_seed(len(kind))
    model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)


def matrix(folder: Path, layer: int, **options) -> list[list[list[float]]]:
    """[hypothesis][reference] of P, R and F, each pair in a batch of its own."""
    hyps = [hyp for hyp in HYPS for _ in REFS]
    values = bert_score.score(hyps, REFS * len(HYPS), model_type=str(folder), num_layers=layer,
                              batch_size=1, device="cpu", lang="none", **options)
    table = torch.stack(values, dim=1).view(len(HYPS), len(REFS), 3).tolist()
    return [[[float(f"{x:.9g}") for x in row] for row in rows] for rows in table]


def golden(folder: Path, layer: int, baseline: Path) -> dict[str, object]:
    tokenizer = get_tokenizer(str(folder))
    idf = get_idf_dict(REFS, tokenizer, nthreads=0)
    return {
        "layer": layer,
        "plain": matrix(folder, layer),
        "idf": matrix(folder, layer, idf=idf),
        "baseline": matrix(folder, layer, rescale_with_baseline=True, baseline_path=str(baseline)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    out = parser.parse_args().out.resolve()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    (out / "baseline.csv").write_text(BASELINE, encoding="utf-8")
    for kind in LAYERS:
        write_model(kind, out / kind)
    packages = ("bert-score", "torch", "transformers")
    document = {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "hypotheses": HYPS,
        "references": REFS,
        "models": {k: golden(out / k, layer, out / "baseline.csv") for k, layer in LAYERS.items()},
    }
    text = json.dumps(document, ensure_ascii=False, indent=None)
    (out / "golden.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
