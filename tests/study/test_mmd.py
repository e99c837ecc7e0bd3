"""MMD^2 against a double loop, and its bias."""

import tracemalloc

import numpy as np
import pytest

from noisewise.study import mmd


def brute(p, q):
    """The paper's formula, pair by pair."""
    m, total = len(p), 0.0
    for i in range(m):
        for j in range(m):
            if i != j:
                for a, b, sign in (
                    (p[i], p[j], 1),
                    (q[i], q[j], 1),
                    (p[i], q[j], -1),
                    (p[j], q[i], -1),
                ):
                    total += sign * np.exp(-0.5 * np.sum((np.asarray(a) - np.asarray(b)) ** 2))
    return total / (m * (m - 1))


@pytest.mark.parametrize("shape", [(40,), (40, 1), (30, 2), (30, 3), (20, 6)])
@pytest.mark.parametrize("spread", [1e-3, 0.1, 1.0, 5.0])
def test_mmd_agrees_with_a_double_loop(rng, shape, spread) -> None:
    p, q = spread * rng.standard_normal(shape), spread * (rng.standard_normal(shape) + 0.3)
    assert mmd.squared(p, q) == pytest.approx(brute(p, q), rel=1e-7, abs=1e-13)


def test_unbiased_under_equality(rng) -> None:
    """Mean zero within 4 standard errors (one false alarm in 16 000), over 2000 pairs."""
    values = np.array([mmd.squared(*rng.standard_normal((2, 50, 1))) for _ in range(2000)])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(values.size)
    assert values.min() < 0


@pytest.mark.parametrize("spread", [0.05, 3.0])
def test_memory_is_bounded(rng, spread) -> None:
    p, q = spread * rng.standard_normal((2, 5000, 2))
    tracemalloc.start()
    mmd.squared(p, q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # all pairs at once would be 200 MB for each of three tables


def test_refuses_unequal_samples() -> None:
    with pytest.raises(ValueError, match="same size"):
        mmd.squared(np.zeros(3), np.zeros(4))
