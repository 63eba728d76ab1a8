"""The tolerance of all other tests: what it lets pass, and what not."""

from __future__ import annotations

import numpy as np
import pytest

from project import TESTS, load_module
from tolerance import EPS, ULPS, assert_close, assert_no_worse


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("size", [1e-9, 1.0, 4e6])
def test_a_tolerance_grows_with_the_largest_value_and_its_rounding(dtype, size):
    expected = np.array([0.0, -size])
    rounding = EPS[dtype] * size
    assert_close(expected + 0.9 * ULPS[dtype] * rounding, expected, dtype)
    for off in ([1.1, 0], [0, -1.1]):
        with pytest.raises(AssertionError):
            assert_close(expected + np.multiply(off, ULPS[dtype] * rounding), expected, dtype)


def test_small_results_of_large_numbers_have_the_tolerance_of_those():
    assert_close(1e-12, 0, scale=100)
    with pytest.raises(AssertionError):
        assert_close(1e-12, 0)
    with pytest.raises(AssertionError):
        assert_close(1e-12, 0, scale=100, ulps=1)


def test_numbers_without_their_precision_have_the_tolerance_of_the_smallest_that_keep_it():
    assert_close(np.float32(5e-45), np.float32(0), "fp32", scale=1e-45)
    with pytest.raises(AssertionError):
        assert_close(1e-40, 0, "fp32", scale=1e-45)


def test_what_is_not_finite_must_be_the_same():
    strange = np.array([np.nan, -np.inf, 1.0])
    assert_close(strange, strange)
    for place in range(3):
        with pytest.raises(AssertionError):
            assert_close(np.where(np.arange(3) == place, 2.0, strange), strange)


def test_an_error_may_be_twice_that_of_a_plain_computation():
    exact, plain = np.zeros(100), np.full(100, 0.1)
    assert_no_worse(1.9 * plain, plain, exact)
    one = np.eye(100)[7]
    for bad in (2.1 * plain, plain + 3 * one, np.where(one, np.nan, exact)):
        with pytest.raises(AssertionError):
            assert_no_worse(bad, plain, exact)


def test_every_file_with_models_or_floats_is_run_with_the_instructions_of_other_cpus():
    cpus = load_module(TESTS / "cpus.py")
    found = {str(path.relative_to(TESTS)) for path in (*cpus.neural(), *cpus.core())}
    assert {f"metrics/test_{name}.py" for name in ("comet", "bertscore", "light", "mqm", "chrf",
                                                   "native", "rouge")} < found
    assert {"samplers/test_ct2.py", "samplers/test_hf.py", "attacks/test_model_folders.py",
            "strategies/test_strategies.py", "cli/test_score_command.py",
            "test_manual.py", "test_public.py"} < found
    assert "openai/test_openai_client.py" not in found
