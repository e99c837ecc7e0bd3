"""The verdicts are right: wrong posteriors are caught with the power that theory gives, right ones
pass at the stated rate.
"""

import numpy as np
import pytest
from scipy import special, stats

from noisewise.study.verdict import LEVELS, SIGMAS, histogram, judge, ks, ks_limit

N = 4000


def test_ks_is_scipys(rng) -> None:
    for size in (1, 2, 17, 4000):
        u = rng.random(size)
        assert ks(u) == pytest.approx(stats.kstest(u, "uniform").statistic, abs=1e-12)
    assert ks_limit(4000) == pytest.approx(0.0308, abs=2e-4)


def test_a_calibrated_method_passes_at_the_stated_rate(rng) -> None:
    """3000 studies; the KS limit alone fails one of 1000. More than 12 failures have a chance of
    3e-5.
    """
    failures = sum(not judge(rng.random(500)).passes for _ in range(3000))
    assert failures <= 12


@pytest.mark.parametrize(
    ("wrong", "word"),
    [("wide", "under-confident"), ("narrow", "over-confident"), ("shifted", "too low")],
)
def test_a_wrong_posterior_is_caught(rng, wrong, word) -> None:
    """By theory an sd wrong by 10 % is caught all but 1 time in 10 000, a shift of 0.1 sd 96 times
    in 100 by the mean of z alone.

    Fewer than 180 of 200 studies have a chance below 1e-4. KS alone would not do: it misses a wrong
    sd in a third to a half.
    """
    by_variance = stats.norm.cdf((1 - 1 / 1.21 - SIGMAS * np.sqrt(2 / N)) / (np.sqrt(2 / N) / 1.21))
    by_mean = stats.norm.cdf(0.1 * np.sqrt(N) - SIGMAS)
    assert by_variance > 0.9999
    assert by_mean > 0.96
    found = []
    for _ in range(200):
        z = rng.standard_normal(N)
        found.append(
            judge(special.ndtr({"wide": z / 1.1, "narrow": z / 0.9, "shifted": z + 0.1}[wrong]))
        )
    assert sum(not one.passes for one in found) >= (180 if wrong == "shifted" else 200)
    assert sum(word in one.words for one in found) >= 180
    if wrong != "shifted":
        assert 0.2 < np.mean([one.ks < one.ks_limit for one in found]) < 0.65


def test_coverage_and_histogram(rng) -> None:
    u = rng.random(N)
    found = judge(u)
    for level, covered, low, high in zip(
        LEVELS, found.coverage, found.coverage_low, found.coverage_high, strict=True
    ):
        assert covered == np.mean((u >= 0.5 - level / 2) & (u <= 0.5 + level / 2))
        assert low < level < high
        assert high - low == pytest.approx(3.92 * np.sqrt(level * (1 - level) / N), rel=0.1)
    counts, low, high = histogram(u)
    assert counts.sum() == N
    assert low < N / 20 < high
