"""Stand-ins for what is too large to bring along: a COMET model, a server with a language model.

They have the real formats and protocols and know nothing, so that the examples run offline in
seconds. Put your own names in their place.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from minrisk._core.errors import needs_extra


def translations(segments: int, samples: int) -> list[dict[str, Any]]:
    """Real samples of a translation model, which minrisk brings along for its demo."""
    with lzma.open(str(files("minrisk") / "data" / "demo.jsonl.xz"), "rt", encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    return [{"source": record["source"], "samples": record["samples"][:samples]}
            for record in records[-segments:]]


def comet(folder: Path) -> str:
    """A folder with a COMET model of random weights, as `minrisk comet convert` writes one."""
    with needs_extra("a COMET model", "comet"):
        import torch
        from safetensors.torch import save_file
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(0)
    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = [*marks, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words = Tokenizer(models.BPE({word: i for i, word in enumerate(vocabulary)}, []))
    words.pre_tokenizer = pre_tokenizers.ByteLevel()
    encoder = XLMRobertaModel(XLMRobertaConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, type_vocab_size=1,
        max_position_embeddings=514), add_pooling_layer=False)
    encoder.config.save_pretrained(folder / "encoder")
    PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", pad_token="<pad>",
                            eos_token="</s>", unk_token="<unk>", model_max_length=512
                            ).save_pretrained(folder / "encoder")
    weights = {f"encoder.model.{name}": tensor for name, tensor in encoder.state_dict().items()}
    for place, (rows, columns) in {0: (8, 6 * 16), 3: (4, 8), 6: (1, 4)}.items():
        weights[f"estimator.ff.{place}.weight"] = torch.randn(rows, columns)
        weights[f"estimator.ff.{place}.bias"] = torch.zeros(rows)
    save_file({name: t.contiguous() for name, t in weights.items()}, folder / "model.safetensors")
    (folder / "minrisk.json").write_text(json.dumps({
        "class_identifier": "regression_metric", "layer": 2, "hidden_sizes": [8, 4]}))
    return str(folder)


@contextmanager
def language_model() -> Iterator[str]:
    """The address of a server with OpenAI's protocol, whose model errs in two sums of five."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Completions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


class _Completions(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question, rng = body["messages"][-1]["content"], random.Random(body.get("seed"))
        texts = [_reasoning(question, rng) for _ in range(body.get("n", 1))]
        choices = [{"index": i, "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop"} for i, text in enumerate(texts)]
        content = json.dumps({"choices": choices}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def _reasoning(question: str, rng: random.Random) -> str:
    one, other = map(int, re.findall(r"\d+", question))
    found = one + other + rng.choice([0, 0, 0, 10, -1])
    return rng.choice([f"{one} + {other} = {found}. The answer is {found}.",
                       f"Let me add {one} and {other}.\nThe answer is {found}."])
