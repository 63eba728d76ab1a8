"""Draw translation samples with their model log-probabilities from a Marian model.

The output is one JSON record a sentence (see ``README.md``), xz-compressed.  Records are first
appended to a plain ``.jsonl`` file beside the output, so that an interrupted run continues where
it stopped when the same command is given again.
"""

import argparse
import json
import lzma
import sys
import time
import zlib
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

SAMPLE_BATCH = 128  # samples drawn by one call of generate; changing it changes the draws
SCORE_BATCH = 32  # sequences scored at once; the logits of a batch are the peak of memory
LENGTH_LIMIT = 256  # no sample gets more new tokens than this, however long its source
BEAM_SIZE = 5


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="name or folder of a Marian model")
    parser.add_argument("-n", type=int, default=1024, help="samples per sentence")
    parser.add_argument("--epsilon", type=float, default=0.02, help="epsilon of the sampling")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where torch computes, e.g. cuda")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads torch may use")
    parser.add_argument("sentences", type=Path, help="JSON lines with id, source and reference")
    parser.add_argument("output", type=Path, help="output file, named *.jsonl.xz")
    args = parser.parse_args()
    if args.output.suffix != ".xz":
        parser.error("the output file must be named *.xz")
    return args


def read_jsonl(path: Path) -> list[dict]:
    """Read a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def finished_ids(path: Path) -> set[str]:
    """Say which sentences an earlier run has written, cutting off a half-written last line."""
    if not path.exists():
        return set()
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    path.write_bytes(complete)
    return {record["id"] for record in read_jsonl(path)}


def sentence_seed(seed: int, sentence_id: str) -> int:
    """Give each sentence its own seed, so that its samples do not depend on the other sentences."""
    return zlib.crc32(f"{seed}:{sentence_id}".encode())


def max_new_tokens(source_tokens: int) -> int:
    """Bound the length of a sample: loose for any translation, tight for endless repetition."""
    return min(LENGTH_LIMIT, int(2.5 * source_tokens) + 20)


def strip_sequence(tokens: list[int], eos: int) -> tuple[int, ...]:
    """Remove the decoder start token and what follows the first end-of-sentence token."""
    tokens = tokens[1:]
    if eos in tokens:
        tokens = tokens[: tokens.index(eos) + 1]
    return tuple(tokens)


def draw(model, encoded: dict, n: int, epsilon: float) -> list[tuple[int, ...]]:
    """Draw n token sequences by epsilon sampling.

    Tokens less probable than epsilon are never drawn; the others keep their proportions.  Top-k
    is switched off explicitly because its default would truncate the distribution further.
    """
    sequences: list[tuple[int, ...]] = []
    while len(sequences) < n:
        output = model.generate(
            **encoded,
            do_sample=True,
            num_beams=1,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            epsilon_cutoff=epsilon,
            num_return_sequences=min(SAMPLE_BATCH, n - len(sequences)),
            max_new_tokens=max_new_tokens(encoded["input_ids"].shape[1]),
        )
        sequences += [strip_sequence(row, model.config.eos_token_id) for row in output.tolist()]
    return sequences


def search(model, encoded: dict, num_beams: int) -> list[int]:
    """Translate by beam search, or greedily with a single beam."""
    output = model.generate(
        **encoded,
        do_sample=False,
        num_beams=num_beams,
        max_new_tokens=max_new_tokens(encoded["input_ids"].shape[1]),
    )
    return output[0].tolist()


def score_batch(model, encoder_outputs, mask, batch: list[tuple[int, ...]]) -> list[float]:
    """Return the log-probability of each sequence under the untruncated softmax of the model.

    Padding follows the end of a sequence and the decoder is causal, so that it cannot influence
    the tokens before it; its own terms are masked out of the sum.

    The padding entry of the vocabulary is no token of the model: it exists in the converted
    weights only, with a constant logit.  It is left out of the softmax, as it is in generation.
    """
    pad = model.config.pad_token_id
    length = max(map(len, batch))
    labels = torch.tensor([list(tokens) + [pad] * (length - len(tokens)) for tokens in batch])
    labels = labels.to(model.device)
    start = labels.new_full((len(batch), 1), model.config.decoder_start_token_id)
    hidden = encoder_outputs.last_hidden_state.expand(len(batch), -1, -1)
    logits = model(
        encoder_outputs=(hidden,),
        attention_mask=mask.expand(len(batch), -1),
        decoder_input_ids=torch.cat([start, labels[:, :-1]], dim=1),
        use_cache=False,
    ).logits
    logits[:, :, pad] = -torch.inf
    chosen = logits.gather(2, labels.unsqueeze(2)).squeeze(2)
    token_logprobs = chosen - logits.logsumexp(dim=2)
    return token_logprobs.masked_fill(labels == pad, 0.0).double().sum(dim=1).tolist()


def score(model, encoded: dict, sequences: list[tuple[int, ...]]) -> list[float]:
    """Return the log-probability of each sequence, computing that of duplicates only once."""
    encoder_outputs = model.get_encoder()(**encoded)
    distinct = sorted(set(sequences), key=lambda tokens: (len(tokens), tokens))
    logprobs: dict[tuple[int, ...], float] = {}
    for first in range(0, len(distinct), SCORE_BATCH):
        batch = distinct[first : first + SCORE_BATCH]
        values = score_batch(model, encoder_outputs, encoded["attention_mask"], batch)
        logprobs.update(zip(batch, values, strict=True))
    return [logprobs[tokens] for tokens in sequences]


def process(model, tokenizer, sentence: dict, n: int, epsilon: float, seed: int) -> dict:
    """Make the output record of one sentence."""
    encoded = dict(tokenizer(sentence["source"], return_tensors="pt").to(model.device))
    torch.manual_seed(sentence_seed(seed, sentence["id"]))
    sequences = draw(model, encoded, n, epsilon)
    beam, greedy = search(model, encoded, BEAM_SIZE), search(model, encoded, 1)
    return {
        "id": sentence["id"],
        "source": sentence["source"],
        "reference": sentence["reference"],
        "samples": tokenizer.batch_decode(sequences, skip_special_tokens=True),
        "logprobs": [round(value, 3) for value in score(model, encoded, sequences)],
        "beam5": tokenizer.decode(beam, skip_special_tokens=True),
        "greedy": tokenizer.decode(greedy, skip_special_tokens=True),
    }


def compress(plain: Path, output: Path) -> None:
    """Compress the finished records as far as xz can, and remove the plain file."""
    output.write_bytes(lzma.compress(plain.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    plain.unlink()


def main() -> None:
    """Sample every sentence that has no record yet, then compress the records."""
    args = parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model).eval().to(args.device)
    model.generation_config.max_length = None  # max_new_tokens rules; having both draws warnings
    sentences = read_jsonl(args.sentences)
    plain = args.output.with_suffix("")
    finished = finished_ids(plain)
    for number, sentence in enumerate(sentences, 1):
        if sentence["id"] in finished:
            continue
        began = time.monotonic()
        with torch.inference_mode():
            record = process(model, tokenizer, sentence, args.n, args.epsilon, args.seed)
        with plain.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
        seconds = time.monotonic() - began
        distinct = len(set(record["samples"]))
        print(
            f"{number}/{len(sentences)} {sentence['id']}: {distinct} distinct, {seconds:.0f} s",
            file=sys.stderr,
        )
    compress(plain, args.output)
    print(f"{args.output}: {args.output.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
