"""Instruction sets and threads never change a bit; a long run can be interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import minrisk
from commands import PATIENCE
from minrisk import Groups, _native

rng = np.random.default_rng(1)
VOCABULARY = ["".join(rng.choice(list("aeiournst"), rng.integers(1, 9))) for _ in range(300)]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Texts with common words and rare ones, as samples have."""
    draw = np.random.default_rng(seed)
    ranks = draw.zipf(1.3, (count, 20)) % len(VOCABULARY)
    return [" ".join(VOCABULARY[r] for r in row[: draw.integers(1, 20)]) for row in ranks]


@pytest.fixture
def restore():
    before = _native.simd()
    yield
    _native.set_simd(before)
    minrisk.set_threads(None)


def results(texts: list[str], others: list[str]) -> list[np.ndarray]:
    found = []
    for metric in (minrisk.ChrF(), minrisk.ChrF(eps_smoothing=True), minrisk.ChrF(word_order=2),
                   minrisk.BLEU(), minrisk.BLEU(smooth_method="add-k", tokenize="char")):
        features, apart = metric.features(texts), metric.features(others)
        mass = np.random.default_rng(2).dirichlet(np.ones(len(texts)))
        found += [
            metric.utility(features, features, mass),
            metric.scores(features, features),
            metric.utility(apart, features, mass),
            metric.scores(apart, features),
            minrisk.decode(texts, weights=mass, metric=metric, strategy="aggregate").utility,
            minrisk.decode(texts, metric=metric, strategy="aggregate", groups=11).utility,
        ]
    return found


@pytest.mark.parametrize("count", [12, 16, 17, 130])
def test_every_instruction_set_gives_the_same_bits(count, restore):
    texts, others = list(dict.fromkeys(sentences(count))), sentences(5, seed=3)
    runs = []
    for name in _native.available_simd():
        _native.set_simd(name)
        runs.append(results(texts, others))
    for run in runs[1:]:
        for one, first in zip(run, runs[0], strict=True):
            np.testing.assert_array_equal(one, first)


def test_the_number_of_threads_changes_nothing(restore):
    texts, others = list(dict.fromkeys(sentences(300))), sentences(70, seed=3)
    minrisk.set_threads(1)
    alone = results(texts, others)
    for count in (2, 3, 16):
        minrisk.set_threads(count)
        for one, first in zip(results(texts, others), alone, strict=True):
            np.testing.assert_array_equal(one, first)


@pytest.mark.parametrize("name", _native.available_simd())
def test_the_environment_forces_an_instruction_set(name):
    code = "import minrisk, minrisk._native as n; print(minrisk.decode(['ab', 'b']).best, n.simd())"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"MINRISK_CORE": name},
                          capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", name]


def test_the_environment_forces_the_plain_twin():
    code = "from minrisk._core.native import backend; print(backend('chrf').__name__)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"MINRISK_CORE": "plain"},
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "minrisk.metrics.ngram.chrf_plain"


def test_a_core_that_is_not_there_is_named():
    done = subprocess.run([sys.executable, "-m", "minrisk", "decode", "-"],
                          input='{"samples": ["a"]}', env=os.environ | {"MINRISK_CORE": "avx3"},
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown MINRISK_CORE 'avx3'" in done.stderr
    with pytest.raises(ValueError, match="avx3"):
        _native.set_simd("avx3")


def test_without_the_native_core_there_is_one_warning_and_the_same_choice():
    code = textwrap.dedent("""
        import sys, warnings
        sys.modules["minrisk._native"] = None
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            import minrisk
            texts = ["ab c", "ab d", "x"]
            print(minrisk.decode(texts).best, minrisk.decode(texts, strategy="aggregate").best)
        print(len(seen), seen[0].message)
    """)
    free = {name: value for name, value in os.environ.items() if name != "MINRISK_CORE"}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True,
                          check=True)
    choices, warning = done.stdout.splitlines()
    assert choices == "0 0"
    assert warning.startswith("1 minrisk's native core cannot be loaded")


LETTERS = [chr(0x4E00 + i) for i in range(1023)]  # with the end of a text, ten bits each


def six_letters(numbers: np.ndarray) -> list[str]:
    """Texts whose first n-gram of six is one of these 60-bit numbers to the native core."""
    digits = (numbers[:, None] >> np.arange(50, -1, -10, dtype=np.uint64)) & np.uint64(1023)
    rows = digits[np.all(digits > 0, axis=1)].tolist()
    return ["".join(LETTERS[digit - 1] for digit in row) for row in rows]


def made_to_collide(count: int) -> list[str]:
    """N-grams whose product with the golden ratio, a usual hash, is small for all of them."""
    inverse = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))
    numbers = np.arange(1, 17 * count, dtype=np.uint64) * inverse
    return six_letters(numbers[numbers < 2**60])[:count]


def test_texts_that_are_made_to_collide_cost_no_more_than_others():
    """Were all n-grams to collide, time would grow with their square: here a hundredfold."""
    def seconds(texts: list[str]) -> float:
        metric, start = minrisk.ChrF(), time.process_time()
        features = metric.features(["".join(LETTERS), *texts])  # letters are numbered as they come
        average = Groups.split(np.ones(len(features)), 1)
        metric.scores(features[np.array([0])], metric.aggregate(features, average))
        return time.process_time() - start

    count = 40_000
    draw = np.random.default_rng(0).integers(0, 2**60, count, dtype=np.uint64)
    usual = min(seconds(six_letters(draw)) for _ in range(2))
    assert min(seconds(made_to_collide(count)) for _ in range(2)) < 8 * usual


def test_other_processes_hash_otherwise_and_give_the_same_bits():
    code = textwrap.dedent("""
        import json, sys, minrisk
        texts = json.load(sys.stdin)
        for metric in (minrisk.ChrF(word_order=2), minrisk.BLEU()):
            for strategy in ("standard", "aggregate"):
                print(minrisk.decode(texts, metric=metric, strategy=strategy).utility.tobytes())
    """)
    seen = {subprocess.run([sys.executable, "-c", code], input=json.dumps(sentences(60)),
                           capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(seen) == 1


def test_ctrl_c_stops_a_long_computation():
    """In less of its own time than a computation of a third of its pairs takes, which is far more
    than the time between two looks for signals: a busy machine does not matter.
    """
    code = textwrap.dedent("""
        import signal, time, numpy as np, minrisk
        letters = np.random.default_rng(0).choice(list("abcdefghijklmnop"), (6000, 400))
        texts, metric = ["".join(row) for row in letters], minrisk.ChrF()
        few = metric.features(texts[:3460])
        start = time.process_time()
        metric.utility(few, few, np.full(3460, 1 / 3460))
        third = time.process_time() - start
        signal.signal(signal.SIGVTALRM, signal.default_int_handler)
        features = metric.features(texts)
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, third / 16)
        try:
            metric.utility(features, features, np.full(6000, 1 / 6000))
        except KeyboardInterrupt:
            print("stopped")
        print(time.process_time() - start < third)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.stdout == "stopped\nTrue\n", done.stderr


def test_texts_that_are_not_strings_are_refused():
    with pytest.raises(TypeError, match="strings"):
        _native.chrf.Texts(["a", 1], 6, 0, False)


def test_rows_outside_the_index_are_refused():
    texts = _native.chrf.Texts(["a", "b"], 6, 0, False)
    one = np.array([0]), np.array([0, 1]), np.array([0]), np.ones(1)
    assert _native.chrf.scores(texts, *one, 2.0, False, 1).shape == (1, 1)
    for bad in (-1, 2):
        with pytest.raises(IndexError):
            _native.chrf.scores(texts, np.array([bad]), *one[1:], 2.0, False, 1)
        with pytest.raises(IndexError):
            _native.chrf.scores(texts, one[0], one[1], np.array([bad]), one[3], 2.0, False, 1)
    with pytest.raises(ValueError, match="offsets"):
        _native.chrf.scores(texts, one[0], np.array([0, 2]), one[2], one[3], 2.0, False, 1)
    with pytest.raises(ValueError, match="mass"):
        _native.chrf.utility(texts, *one, 2.0, False, 1, np.ones(2))
    with pytest.raises(ValueError, match="different options"):
        _native.chrf.Texts.join(texts, _native.chrf.Texts(["a"], 5, 0, False))


def test_numbers_of_words_that_are_none_are_refused():
    one, ends = np.array([0]), np.array([0, 1])
    assert _native.ter.edits(one, ends, one, ends, 1) == 0
    for words, offsets in ((np.array([-1]), ends), (one, np.array([0, 2]))):
        with pytest.raises(ValueError, match="words"):
            _native.ter.edits(words, offsets, one, ends, 1)
        with pytest.raises(ValueError, match="words"):
            _native.ter.edits(one, ends, words, offsets, 1)


@pytest.mark.parametrize(("given", "expected"), [
    ("3", "3"), ("0", "InputError"), ("x", "InputError"), ("9" * 12, "InputError")])
def test_the_environment_says_how_many_threads(given, expected):
    code = textwrap.dedent("""
        from minrisk._core.errors import InputError
        from minrisk._core.process import threads
        try:
            print(threads())
        except InputError:
            print("InputError")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env=os.environ | {"MINRISK_THREADS": given})
    assert done.stdout.strip() == expected


def test_a_signal_handler_may_use_the_features_that_are_being_indexed():
    code = textwrap.dedent("""
        import signal, numpy as np, minrisk
        rng = np.random.default_rng(0)
        texts = ["".join(rng.choice(list("abcdefghij"), 3000)) for _ in range(500)]
        metric = minrisk.ChrF()
        small, handled = np.ones(1), []
        def handler(*_):
            metric.utility(features[np.array([0])], features[np.array([1])], small)
            handled.append(True)
        signal.signal(signal.SIGVTALRM, handler)
        while not handled:
            features = metric.features(texts)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)  # of its own time
            metric.utility(features, features, np.full(500, 1 / 500))
        print("handled")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.stdout == "handled\n", done.stderr


def test_a_process_forked_in_the_middle_of_decoding_decodes():
    code = textwrap.dedent("""
        import os, sys, threading, minrisk
        texts = [f"{i} some text {i % 7} and more of it {i * i}" for i in range(400)]
        expected = minrisk.decode(texts).best
        stop = threading.Event()
        def work():
            while not stop.is_set():
                minrisk.decode(texts)
        thread = threading.Thread(target=work)
        thread.start()
        codes = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(minrisk.decode(texts).best != expected)
            codes.append(os.waitpid(child, 0)[1])
        stop.set()
        thread.join()
        print(codes.count(0))
    """)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.stdout == "20\n", done.stderr
