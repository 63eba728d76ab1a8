"""CTranslate2: fast sampling on the CPU from converted OPUS-MT models.

    ct2-transformers-converter --model Helsinki-NLP/opus-mt-en-fr --output_dir opus-mt-ct2 \\
        --copy_files source.spm target.spm

It is imported only to sample, so that the sampler can be listed where it is not installed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from threading import Event
from typing import Any, Literal

import numpy as np

from minrisk._core.errors import InputError, UnusableError, Wording, needs_extra, warn
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk._core.process import report_progress, threads
from minrisk._core.sampler import Sample, Sampler, check_numbers

_END = "</s>"
_LIMIT = 512  # positions of OPUS-MT models
_VOCABULARY = "shared_vocabulary.json"
# Sources per loaded model, because a worker can be seeded only once, even if the model is unloaded
# and loaded again. Loading takes less than 1% of the time of sampling so many sources, and each
# worker has buffers of its own (20 MB with 64 samples), so that more of them would cost more.
_WORKERS = 16
_NEEDED = ("model.bin", "source.spm", "target.spm", _VOCABULARY)


@dataclass(frozen=True)
class CTranslate2(Sampler):
    """A converted OPUS-MT model, fast on CPUs; needs minrisk[ct2].

    A sample's `logprob` is its log-probability under the full distribution, before temperature and
    truncation; its tokens are ids in the model's vocabulary, without the end-of-sequence token.
    CTranslate2 has no epsilon sampling: use top_p or top_k, or the sampler "hf".
    The samples of a prompt depend on the seed, its index and n, but not on its batch.

    Args:
        model: folder from `ct2-transformers-converter`, with the SentencePiece models.
        temperature: temperature of sampling; below 1, the distribution is sharper.
        top_k: number of most likely tokens to keep; 0 is all.
        top_p: nucleus sampling: probability mass to keep.
        max_tokens: maximum number of tokens of a sample.
        overlong: sources over the model's limit: truncate ("cut") or fail ("error").
        dtype: number format, such as "int8" [default: the model's own].
        device: device to run on, "cpu" or "cuda".

    Raises:
        InputError: if an option is wrong.

    >>> CTranslate2("opus-mt-ct2", top_p=0.9).batch_size(256)
    16
    >>> CTranslate2("opus-mt-ct2", top_p=1.5)
    Traceback (most recent call last):
    minrisk.InputError: ct2: top_p must be a number above 0 and at most 1; got 1.5
    """

    name = "ct2"
    cost = "n runs of the model, in batches"
    is_random = True

    lacks = dict.fromkeys(
        ("epsilon", "eta", "min_p"), "CTranslate2 truncates by top_p and top_k only; take one of "
        "these, or the sampler hf")

    model: str = option()
    temperature: float = option(1.0, gt=0)
    top_k: int = option(0, ge=0)
    top_p: float = option(1.0, gt=0, le=1)
    max_tokens: int = option(256, ge=1)
    overlong: Literal["cut", "error"] = option("cut")
    dtype: str = option("default")
    device: str = option("cpu", affects_results=False)

    def sample(self, prompts: Sequence[str], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        check_numbers(n, seed)
        indices = range(len(prompts)) if indices is None else indices
        rngs = [np.random.default_rng([seed, index]) for index in indices]
        jobs = list(zip(map(self._tokens, prompts), rngs, strict=True))
        sampled: list[list[Sample]] = []
        for start in range(0, len(jobs), _WORKERS):
            for samples in self._sample_jobs(jobs[start:start + _WORKERS], n):
                sampled.append(samples)
                report_progress("sources sampled", len(sampled), len(prompts))
        return sampled

    def _tokens(self, text: str) -> list[str]:
        if not text.strip():
            raise InputError("the source is blank; leave it out")
        pieces: list[str] = self._pieces["source"].encode(text, out_type=str)
        if len(pieces) >= _LIMIT:
            message = f"a source has {len(pieces)} tokens, and the model takes {_LIMIT - 1}"
            if self.overlong == "error":
                raise InputError(Wording("{message}; shorten it, or set overlong='cut'",
                                         message=message))
            warn(f"{message}; the model ignores the rest")
        return [*pieces[:_LIMIT - 1], _END]

    def _sample_jobs(self, jobs: Sequence[tuple[list[str], np.random.Generator]],
              n: int) -> Iterator[list[Sample]]:
        """The samples of each source, each with its own random generator, by one loaded model."""
        model = self._load(workers=len(jobs))
        seeds = [int(rng.integers(2**31)) for _, rng in jobs]
        with closing(SeededWorkers(model, jobs[0][0], seeds)) as workers:
            for worker, (source, rng) in enumerate(jobs):
                result = workers.translate(
                    worker, source, num_hypotheses=n, sampling_topk=self.top_k,
                    sampling_topp=self.top_p, sampling_temperature=self.temperature,
                    max_decoding_length=self.max_tokens, min_decoding_length=0, length_penalty=0,
                    return_scores=True)
                samples = list(map(self._sample, result.hypotheses, result.scores))
                yield [samples[i] for i in rng.permutation(n)]  # CTranslate2 sorts them by score

    def _load(self, workers: int) -> Any:
        package = _package("ctranslate2")
        try:
            return package.Translator(self.model, device=self.device, compute_type=self.dtype,
                                      intra_threads=threads(), inter_threads=workers)
        except (RuntimeError, ValueError) as error:
            raise UnusableError(f"{self.model} cannot be loaded: {error}; convert it again, or "
                                "choose another dtype or device") from None

    def _sample(self, pieces: list[str], score: float) -> Sample:
        text = self._pieces["target"].decode(pieces)
        # pieces that only the source language has keep their space marker
        return Sample(text.replace("▁", " ").strip(), logprob=score,
                      tokens=tuple(self._ids[piece] for piece in pieces))

    @lazy
    def _ids(self) -> dict[str, int]:
        """The id of each token in the vocabulary of the model."""
        with open(os.path.join(self.model, _VOCABULARY), encoding="utf-8") as file:
            return {piece: i for i, piece in enumerate(json.load(file))}

    @lazy
    def _pieces(self) -> dict[str, Any]:
        """The SentencePiece models of source and target."""
        for name in _NEEDED:
            if not os.path.isfile(os.path.join(self.model, name)):
                raise UnusableError(f"{self.model} has no {name}; expected a folder from "
                                    "ct2-transformers-converter with --copy_files source.spm "
                                    "target.spm")
        processor = _package("sentencepiece").SentencePieceProcessor
        return {side: processor(model_file=os.path.join(self.model, f"{side}.spm"))
                for side in ("source", "target")}


class SeededWorkers:
    """The workers of a loaded model, each with a random generator of a known seed.

    CTranslate2 seeds a worker's generator only when it first samples, and a caller cannot choose
    the worker of a source. So each worker first samples one token with its own seed and blocks in
    the callback for that token; to choose a worker, only that one is released.
    """

    def __init__(self, model: Any, source: Sequence[str], seeds: Sequence[int]) -> None:
        self._model = model
        self._short = [source[0], _END]  # a short source, to seed with
        self._gates: list[Event] = []
        try:
            for seed in seeds:
                _package("ctranslate2").set_random_seed(seed)
                self._gates.append(self._hold())
        except BaseException:
            self.close()
            raise

    def translate(self, worker: int, source: list[str], **options: Any) -> Any:
        """Translate one source with this worker."""
        self._gates[worker].set()
        try:
            [result] = self._model.translate_batch([source], beam_size=1, **options)
        finally:
            self._gates[worker] = self._hold()
        return result

    def close(self) -> None:
        """Release the workers, so that the model can be freed."""
        for gate in self._gates:
            gate.set()

    def _hold(self) -> Event:
        """Block the free worker until the event is set."""
        has_token, gate = Event(), Event()

        def callback(step: Any) -> bool:
            has_token.set()
            gate.wait()
            return True

        [job] = self._model.translate_batch(
            [self._short], beam_size=1, sampling_topk=0, max_decoding_length=1,
            asynchronous=True, callback=callback)
        while not has_token.wait(0.1):
            if job.done():
                job.result()  # raises, because it ended without a token
        return gate


def _package(name: str) -> Any:
    with needs_extra("the 'ct2' sampler", "ct2"):
        return import_module(name)
