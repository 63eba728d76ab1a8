"""Write tiny COMET checkpoints and unbabel-comet's own scores for them (see README.md).

Run in an environment with unbabel-comet 2.2.7 and setuptools < 82 (its dependencies import
pkg_resources); nothing is downloaded. Everything is seeded, so a second run with the same
versions writes the same files.
"""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import argparse
import contextlib
import csv
import functools
import importlib.metadata
import json
import logging
import math
import operator
import shutil
import tempfile
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytorch_lightning as ptl
import tokenizers
import torch
import transformers
from comet.models import (
    CometModel,
    ReferencelessRegression,
    RegressionMetric,
    UnifiedMetric,
    XCOMETMetric,
    load_from_checkpoint,
)
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.core.saving import save_hparams_to_yaml
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

TEXTS = [
    "The old bridge was closed for repairs last winter.",
    "Куда вы дели мои новые очки?",
    "Die alte Brücke wurde im letzten Winter wegen Reparaturen gesperrt.",
    "Where did you put my new glasses?",
    "",
    "In the morning the ferry leaves from the small harbour behind the market, crosses the bay in "
    "about an hour, stops twice at the islands to let farmers and their children off, and comes "
    "back late in the evening with bread and letters.",
    "Great news! 🎉🚀 See you at 10:30 👩‍👩‍👧",
    "昨年の冬、古い橋は修理のために閉鎖された。",
    "أين وضعت نظارتي الجديدة؟",
    "पुराना पुल पिछली सर्दियों में बंद था।",
    "L'ancien pont a été fermé l'hiver dernier pour des travaux; on l'a rouvert au printemps.",
    "我的新眼镜放在哪里了?",
]
SOURCES = [0, 1]
HYPOTHESES = [2, 3, 4, 5, 6, 7]
REFERENCES = [2, 4, 8, 9, 10]
LABELS, WEIGHTS = [0, 1, 0, 1, 1], [1.0, 3.0, 2.0, 0.5, 1.0]  # of the references
EMBEDDED = [0, 4, 5]
# Scored as hypotheses of the first source and reference only: spaces, and special tokens spelt
# out (which the tokenizer takes for the real ones, padding included).
EDGES = [
    "  Where did  you put\tmy new\nglasses? ",
    "ｆｕｌｌ　ｗｉｄｔｈ ﬁne e\u0301te\u0301 zero\u200bwidth",
    "Where <pad> did [PAD] you put it?",
    "Where did you </s> put [SEP] my <s> new [CLS] glasses?",
]
VOCABULARY = 280
XLMR_SPECIAL = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
REMBERT_SPECIAL = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "bos_token": "[CLS]",
    "eos_token": "[SEP]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}
XLMR_IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}


@dataclass
class Variant:
    """One checkpoint: the metric's class, its arguments, and what else to do to it."""

    arguments: dict[str, Any]
    encoder: str = "tiny/xlm-roberta"
    encoder_model: str = "XLM-RoBERTa"
    metric: type[CometModel] = RegressionMetric
    scalars: list[float] | None = None  # layer weights before softmax or sparsemax
    spread: float = 0.3  # standard deviation of the estimator's weights
    yaml: dict[str, Any] = field(default_factory=dict)  # where hparams.yaml was edited later
    position_ids: bool = False  # in the state dict, as transformers < 4.31 wrote it
    trained: bool = False  # by Trainer.fit: optimizer, scheduler and callback states as well


MIX = {"layer": "mix", "layer_transformation": "sparsemax", "layer_norm": False}
HEAD = {"hidden_sizes": [24, 12], "activations": "Tanh", "final_activation": None}
SPARSE = [0.4, -1.2, 0.6, 0.3, -0.8]  # sparsemax gives 0.3, 0, 0.5, 0.2, 0: no top layer
JOINT = {"hidden_sizes": [24, 12], "word_layer": 2}
VARIANTS = {
    "xlmr_mix_sparsemax": Variant({**MIX, **HEAD}, scalars=SPARSE),
    "xlmr_mix_softmax_layernorm": Variant(
        {"layer": "mix", "layer_transformation": "softmax", "layer_norm": True, **HEAD},
        position_ids=True,
    ),
    "xlmr_layer": Variant({"layer": 2, **HEAD}),
    "xlmr_xl": Variant(
        {**MIX, **HEAD}, encoder="tiny/xlm-roberta-xl", encoder_model="XLM-RoBERTa-XL"
    ),
    "minilm_layer": Variant(
        {"layer": 3, "hidden_sizes": [20]}, encoder="tiny/minilm", encoder_model="MiniLM"
    ),
    "bert": Variant(
        {"layer": "mix", "layer_norm": True, **HEAD}, encoder="tiny/bert", encoder_model="BERT"
    ),
    "rembert": Variant(
        {**MIX, **HEAD},
        encoder="tiny/rembert",
        encoder_model="RemBERT",
        scalars=[-0.7, 0.5, 0.2, 0.1],
    ),
    "pool_cls": Variant(
        {**MIX, **HEAD, "pool": "cls"},
        encoder="tiny/xlm-roberta-short",
        scalars=[-0.3, 0.4, 0.6],
    ),
    "pool_max": Variant(
        {**MIX, **HEAD, "pool": "max", "layer_norm": True}, encoder="tiny/xlm-roberta-short"
    ),
    "three_hidden": Variant(
        {
            **MIX,
            "hidden_sizes": [24, 16, 8],
            "activations": "Sigmoid",
            "final_activation": "Sigmoid",
        },
        encoder="tiny/xlm-roberta-short",
        spread=1.2,
    ),
    "truncating": Variant({**MIX, **HEAD}, encoder="tiny/xlm-roberta-short"),
    "sparsemax_patch": Variant(
        {**MIX, **HEAD},
        encoder="tiny/xlm-roberta-short",
        scalars=[0.9, -0.8, 0.2],
        yaml={"layer_transformation": "sparsemax_patch"},
    ),
    "trained": Variant(
        {**MIX, **HEAD, "nr_frozen_epochs": 1, "warmup_steps": 10, "batch_size": 2},
        encoder="tiny/xlm-roberta-short",
        scalars=[0.2, 0.5, 0.4],
        trained=True,
    ),
    "referenceless": Variant(
        {**MIX, **HEAD},
        encoder="tiny/xlm-roberta-short",
        metric=ReferencelessRegression,
        scalars=[0.5, 0.3, -0.9],
    ),
    "unified": Variant(
        {**JOINT, "sent_layer": "mix", "layer_norm": True},
        encoder="tiny/xlm-roberta-short",
        metric=UnifiedMetric,
    ),
    "kiwi": Variant(
        {**JOINT, "sent_layer": "mix", "layer_norm": False, "input_segments": ["mt", "src"]},
        encoder="tiny/xlm-roberta",
        metric=UnifiedMetric,
        scalars=SPARSE,
    ),
    "kiwi_layer": Variant(
        {**JOINT, "sent_layer": 2, "input_segments": ["mt", "src"]},
        encoder="tiny/xlm-roberta-xl",
        encoder_model="XLM-RoBERTa-XL",
        metric=UnifiedMetric,
        yaml={"layer_transformation": "sparsemax_patch"},
    ),
    "xcomet": Variant(
        {**JOINT, "word_layer": 1, "final_activation": "Sigmoid"},
        encoder="tiny/xlm-roberta-xl",
        encoder_model="XLM-RoBERTa-XL",
        metric=XCOMETMetric,
    ),
    "xcomet_short": Variant(
        {**JOINT, "word_layer": 2}, encoder="tiny/xlm-roberta-short", metric=XCOMETMetric
    ),
}
# The folder that holds the files of each name on the hub; MiniLM's encoder in unbabel-comet
# takes the tokenizer of "xlm-roberta-base", whatever its own name is.
HUB = {
    "tiny/xlm-roberta": "xlm-roberta",
    "tiny/xlm-roberta-short": "xlm-roberta-short",
    "tiny/xlm-roberta-xl": "xlm-roberta-xl",
    "tiny/minilm": "minilm",
    "tiny/bert": "bert",
    "tiny/rembert": "rembert",
    "xlm-roberta-base": "xlm-roberta",
}


def substrings(words: list[str], longest: int = 5) -> Counter[tuple[bool, str]]:
    """How often each substring occurs, at the beginning of a word (True) and elsewhere."""
    return Counter(
        (begin == 0, word[begin:end])
        for word in words
        for begin in range(len(word))
        for end in range(begin + 1, min(begin + longest, len(word)) + 1)
    )


def pieces(counts: Counter[Any], text: Callable[[Any], str], size: int) -> list[Any]:
    """All characters but emoji, and then the substrings that save most, in a fixed order.

    The trainers of the tokenizers library would do, but give another vocabulary in every run.
    """
    known = [key for key in counts if max(text(key)) < "\U00010000"]
    known.sort(key=lambda key: (len(text(key)) > 1, -counts[key] * (len(text(key)) - 1), key))
    return known[:size]


def unigram(special: list[str], begin: str, end: str) -> Tokenizer:
    """A Unigram tokenizer with metaspaces, made for the texts, that writes begin A end."""
    words = ["▁" + word for text in TEXTS for word in unicodedata.normalize("NFKC", text).split()]
    counts: Counter[str] = Counter()
    for (_, piece), count in substrings(words).items():
        counts[piece] += count
    scores = {piece: math.log(counts[piece] / counts.total()) for piece in counts}
    chosen = pieces(counts, str, VOCABULARY - len(special) - 1)
    vocabulary = [(token, 0.0) for token in special] + [(piece, scores[piece]) for piece in chosen]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=special.index("<unk>")))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} {end} $B {end}",
        special_tokens=[(token, special.index(token)) for token in (begin, end)],
    )
    return tokenizer


def xlmr_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A tokenizer as XLM-R's, with <s>, <pad>, </s> and <unk> as 0 to 3."""
    raw = unigram(["<s>", "<pad>", "</s>", "<unk>"], "<s>", "</s>")
    return transformers.XLMRobertaTokenizerFast(
        tokenizer_object=raw, model_max_length=512, **XLMR_SPECIAL
    )


def rembert_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A tokenizer as RemBERT's, with <pad>, <unk>, [CLS] and [SEP] as 0 to 3."""
    raw = unigram(["<pad>", "<unk>", "[CLS]", "[SEP]"], "[CLS]", "[SEP]")
    return transformers.RemBertTokenizerFast(
        tokenizer_object=raw, model_max_length=512, **REMBERT_SPECIAL
    )


def bert_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A cased WordPiece tokenizer as multilingual BERT's."""
    normalizer = normalizers.BertNormalizer(lowercase=False)
    splitter = pre_tokenizers.BertPreTokenizer()
    words = [
        word
        for text in TEXTS
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
    ]
    chosen = pieces(substrings(words), operator.itemgetter(1), VOCABULARY - len(BERT_SPECIAL))
    tokens = BERT_SPECIAL + [piece if first else f"##{piece}" for first, piece in chosen]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizer
    raw.pre_tokenizer = splitter
    raw.decoder = decoders.WordPiece()
    raw.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.BertTokenizerFast(
        tokenizer_object=raw, do_lower_case=False, model_max_length=512
    )


def write_encoder(
    folder: Path,
    config: transformers.PretrainedConfig,
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    """An encoder's repository less its weights."""
    config.vocab_size = len(tokenizer)
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    compact = json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False)
    path.write_text(compact + "\n", encoding="utf-8")


def write_encoders(folder: Path) -> None:
    """All kinds of encoder, one folder each."""
    xlmr = functools.partial(transformers.XLMRobertaConfig, **SIZES, **XLMR_IDS)
    long = xlmr(num_hidden_layers=4, max_position_embeddings=130)
    write_encoder(folder / "xlm-roberta", long, xlmr_tokenizer())
    short = xlmr(num_hidden_layers=2, max_position_embeddings=34)
    write_encoder(folder / "xlm-roberta-short", short, xlmr_tokenizer())
    large = transformers.XLMRobertaXLConfig(
        num_hidden_layers=2, max_position_embeddings=130, **SIZES, **XLMR_IDS
    )
    write_encoder(folder / "xlm-roberta-xl", large, xlmr_tokenizer())
    bert = functools.partial(
        transformers.BertConfig, num_hidden_layers=3, max_position_embeddings=128, **SIZES
    )
    bert(vocab_size=len(xlmr_tokenizer())).save_pretrained(folder / "minilm")
    write_encoder(folder / "bert", bert(), bert_tokenizer())
    rembert = transformers.RemBertConfig(
        num_hidden_layers=3,
        max_position_embeddings=128,
        input_embedding_size=12,
        output_embedding_size=20,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        **SIZES,
    )
    write_encoder(folder / "rembert", rembert, rembert_tokenizer())


@contextlib.contextmanager
def offline_hub(encoders: Path) -> Iterator[None]:
    """Work in a temporary folder where the hub's names are paths to the encoders' folders."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        for name, folder in HUB.items():
            link = Path(scratch, name)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(encoders / folder)
        os.chdir(scratch)
        try:
            yield
        finally:
            os.chdir(before)


@torch.no_grad()
def randomise(model: CometModel, variant: Variant) -> None:
    """Weights with enough variance for scores to differ clearly between texts."""
    norms = {
        f"{name}.{end}"
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.LayerNorm)
        for end in ("weight", "bias")
    }
    for name, parameter in model.named_parameters():
        if name.startswith("layerwise_attention."):
            continue
        if name in norms and name.endswith("weight"):
            parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
        elif name.endswith("bias"):
            parameter.normal_(std=0.1)
        else:
            parameter.normal_(std=variant.spread if name.startswith("estimator.") else 0.3)
    if (mix := model.layerwise_attention) is not None:
        values = variant.scalars or torch.randn(len(mix.scalar_parameters)).mul(0.5).tolist()
        for parameter, value in zip(mix.scalar_parameters, values, strict=True):
            parameter.fill_(value)
        mix.gamma.fill_(1.3)


def build(variant: Variant) -> CometModel:
    """The model of a variant, randomly initialised."""
    model = variant.metric(
        encoder_model=variant.encoder_model,
        pretrained_model=variant.encoder,
        train_data=["train.csv"],
        validation_data=["validation.csv"],
        load_pretrained_weights=False,
        **variant.arguments,
    )
    model.hparams["load_pretrained_weights"] = True  # what a published checkpoint says
    randomise(model, variant)
    if variant.position_ids:
        embeddings = model.encoder.model.embeddings
        embeddings.register_buffer("position_ids", embeddings.position_ids, persistent=True)
    return model


def write_training_data(path: Path) -> None:
    """A few rows in the form that unbabel-comet trains on."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["src", "mt", "ref", "score"])
        for index in range(10):
            texts = [TEXTS[(index + shift) % len(TEXTS)] or "-" for shift in range(3)]
            writer.writerow([*texts, index / 10])


def save(model: CometModel, variant: Variant, folder: Path) -> Path:
    """Write the checkpoint as Lightning does, and hparams.yaml beside it as on the hub."""
    if variant.trained:
        write_training_data(Path("train.csv"))
        write_training_data(Path("validation.csv"))
    trainer = ptl.Trainer(
        accelerator="cpu",
        logger=False,
        callbacks=[EarlyStopping(monitor="train_loss")] if variant.trained else None,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_steps=2,
        limit_val_batches=0,
    )
    if variant.trained:
        trainer.fit(model)
    else:
        trainer.strategy.connect(model)
    path = folder / "checkpoints" / "model.ckpt"
    trainer.save_checkpoint(path)
    save_hparams_to_yaml(str(folder / "hparams.yaml"), {**model.hparams, **variant.yaml})
    return path


def rounded(values: torch.Tensor, digits: int = 9) -> Any:
    """A tensor as nested lists of short floats (nine digits keep a float32 whole)."""
    if values.dim():
        return [rounded(value, digits) for value in values]
    return float(f"{values.item():.{digits}g}")


def samples(model: CometModel) -> list[dict[str, str]]:
    """The grid, in the order source, hypothesis, reference (if the metric takes references)."""
    references = REFERENCES if model.requires_references() else [None]
    return [
        {"src": TEXTS[s], "mt": TEXTS[h], **({} if r is None else {"ref": TEXTS[r]})}
        for s in SOURCES
        for h in HYPOTHESES
        for r in references
    ]


@torch.no_grad()
def score(model: CometModel, batch: list[dict[str, str]]) -> torch.Tensor:
    """The scores of one padded batch."""
    return model(**model.prepare_sample(batch, stage="predict")).score


def score_each(model: CometModel, batch: list[dict[str, str]]) -> torch.Tensor:
    """The scores of batches of one, without padding."""
    return torch.cat([score(model, [sample]) for sample in batch])


@torch.no_grad()
def embed(model: CometModel, texts: list[str]) -> torch.Tensor:
    """The sentence embeddings of one padded batch."""
    inputs = model.encoder.prepare_sample(texts)
    return model.get_sentence_embedding(inputs["input_ids"], inputs["attention_mask"])


def embed_each(model: CometModel, texts: list[str]) -> torch.Tensor:
    """The sentence embeddings of batches of one, without padding."""
    return torch.cat([embed(model, [text]) for text in texts])


def predict(model: CometModel, batch: list[dict[str, str]]) -> torch.Tensor:
    """The scores by the documented way."""
    prediction = model.predict(batch, batch_size=16, gpus=0, num_workers=0, progress_bar=False)
    return torch.tensor(prediction.scores)


def largest(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest absolute difference."""
    return rounded((one - other).abs().max(), 3)


@torch.no_grad()
def group_scores(model: CometModel) -> dict[str, Any]:
    """The first source's hypotheses against weighted groups of references, by two averages.

    `mean` is the official `estimate` of the mean embedding; `expected` runs the official network
    on the mean, over the references, of what its first layer makes of each.
    """
    hypotheses = embed_each(model, [TEXTS[h] for h in HYPOTHESES])
    references = embed_each(model, [TEXTS[r] for r in REFERENCES])
    source = embed_each(model, [TEXTS[SOURCES[0]]])
    first, rest = model.estimator.ff[0], model.estimator.ff[1:]
    found: dict[str, Any] = {"labels": LABELS, "weights": WEIGHTS, "mean": [], "expected": []}
    for hypothesis in hypotheses[:, None]:
        rows: dict[str, list[torch.Tensor]] = {"mean": [], "expected": []}
        for group in range(max(LABELS) + 1):
            members = [i for i, label in enumerate(LABELS) if label == group]
            share = torch.tensor([WEIGHTS[i] for i in members])
            share = share / share.sum()
            mean = (share[:, None] * references[members]).sum(0, keepdim=True)
            rows["mean"].append(model.estimate(source, hypothesis, mean)["score"][0])
            outputs = [first(features(hypothesis, references[i][None], source)) for i in members]
            expected = sum(w * output for w, output in zip(share, outputs, strict=True))
            rows["expected"].append(rest(expected)[0, 0])
        for name, row in rows.items():
            found[name].append(rounded(torch.stack(row)))
    return found


def features(mt: torch.Tensor, ref: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """What `RegressionMetric.estimate` gives its network."""
    products = [mt * ref, (mt - ref).abs(), mt * src, (mt - src).abs()]
    return torch.cat([mt, ref, *products], dim=1)


def golden(model: CometModel) -> dict[str, Any]:
    """A loaded model's scores and embeddings, and how much they vary with the batches."""
    model.eval()
    batch = samples(model)
    scores = score_each(model, batch)
    by_predict = predict(model, batch)
    torch.testing.assert_close(by_predict, scores, rtol=1e-5, atol=1e-5)
    shape = [len(SOURCES), len(HYPOTHESES)]
    if model.requires_references():
        shape.append(len(REFERENCES))
    edges = [{"src": TEXTS[SOURCES[0]], "mt": edge, "ref": TEXTS[REFERENCES[0]]} for edge in EDGES]
    embeddings = embed_each(model, TEXTS)
    result: dict[str, Any] = {}
    if model.layerwise_attention is not None:
        scalars = torch.cat(list(model.layerwise_attention.scalar_parameters)).detach()
        weights = model.layerwise_attention.transform_fn(scalars, dim=0)
        result["layer_weights"] = rounded(weights, 7)
    if model.requires_references():
        result["groups"] = group_scores(model)
    return {
        **result,
        "max_tokens": model.encoder.max_positions - 2,
        "noise": {
            "scores_padded": largest(score(model, batch), scores),
            "scores_predict": largest(by_predict, scores),
            "embeddings_padded": largest(embed(model, TEXTS), embeddings),
        },
        "scores": rounded(scores.view(shape)),
        "edge_scores": rounded(score_each(model, edges)),
        "embeddings": rounded(embeddings[EMBEDDED], 7),
    }


def predict_each(model: CometModel, batch: list[dict[str, str]]) -> torch.Tensor:
    """The official final scores of batches of one."""
    model.eval()
    with torch.no_grad():
        steps = [
            model.predict_step(model.prepare_sample([sample], stage="predict")) for sample in batch
        ]
    return torch.cat([step.scores for step in steps])


def golden_joint(model: CometModel) -> dict[str, Any]:
    """Of a model that reads jointly: its scores with references, if it takes them, and without."""
    triples = [
        {"src": TEXTS[s], "mt": TEXTS[h], "ref": TEXTS[r]}
        for s in SOURCES
        for h in HYPOTHESES
        for r in REFERENCES
    ]
    doubles = [{"src": TEXTS[s], "mt": TEXTS[h]} for s in SOURCES for h in HYPOTHESES]
    edges = [{"src": TEXTS[SOURCES[0]], "mt": edge, "ref": TEXTS[REFERENCES[0]]} for edge in EDGES]
    found: dict[str, Any] = {"quality": predict_each(model, doubles).view(len(SOURCES), -1)}
    torch.testing.assert_close(predict(model, doubles), found["quality"].flatten())
    if "ref" in model.hparams.input_segments:
        shape = [len(SOURCES), len(HYPOTHESES), len(REFERENCES)]
        found["scores"] = predict_each(model, triples).view(shape)
        found["edge_scores"] = predict_each(model, edges)
    return {"joint": True, **{name: rounded(values) for name, values in found.items()}}


def run(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Write one variant and return its golden values."""
    variant = VARIANTS[name]
    ptl.seed_everything(seed, verbose=False)
    path = save(build(variant), variant, folder / name)
    joint = issubclass(variant.metric, UnifiedMetric)
    values = (golden_joint if joint else golden)(load_from_checkpoint(path))
    return {"encoder": variant.encoder, **values}


def token_ids(load: Callable[[str], Any]) -> dict[str, list[list[int]]]:
    """The ids of every text and edge by every tokenizer, not truncated."""
    return {name: load(name)([*TEXTS, *EDGES])["input_ids"] for name in HUB if has_tokenizer(name)}


def has_tokenizer(name: str) -> bool:
    """Whether the hub's name comes with a tokenizer."""
    return Path(name, "tokenizer.json").is_file()


def header() -> dict[str, Any]:
    """What all variants share: versions, texts, the grid, the encoders and their token ids."""
    packages = ["unbabel-comet", "torch", "transformers", "pytorch-lightning", "numpy", "entmax"]
    versions = {package: importlib.metadata.version(package) for package in packages}
    classes = {
        "tiny/bert": transformers.BertTokenizerFast,
        "tiny/rembert": transformers.RemBertTokenizerFast,
    }

    def load(name: str) -> Any:
        return classes.get(name, transformers.XLMRobertaTokenizerFast).from_pretrained(name)

    return {
        "versions": {**versions, "tokenizers": tokenizers.__version__},
        "texts": TEXTS,
        "edges": EDGES,
        "grid": {"sources": SOURCES, "hypotheses": HYPOTHESES, "references": REFERENCES},
        "embedded": EMBEDDED,
        "hub": {name: f"encoders/{folder}" for name, folder in HUB.items()},
        "token_ids": token_ids(load),
    }


def to_json(value: Any, depth: int = 3) -> str:
    """JSON with one line per entry down to a depth: small, and readable in a diff."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    indent = " " * (3 - depth)
    entries = [f"{indent} {json.dumps(k)}: {to_json(v, depth - 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def main() -> None:
    """Write encoders, checkpoints and golden.json anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    out = parser.parse_args().out.resolve()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for folder in ("encoders", "checkpoints"):
        shutil.rmtree(out / folder, ignore_errors=True)
    write_encoders(out / "encoders")
    with offline_hub(out / "encoders"):
        document = header()
        runs = {name: run(name, seed, out / "checkpoints") for seed, name in enumerate(VARIANTS)}
    document["variants"] = runs
    (out / "golden.json").write_text(to_json(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
