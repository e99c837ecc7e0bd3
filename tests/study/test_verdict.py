"""The verdicts are right: wrong posteriors are caught with the power that theory gives, right ones pass at the stated rate."""

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
    """3000 studies; the KS limit alone fails one of 1000. More than 12 failures have a chance of 3e-5."""
    failures = sum(not judge(rng.random(500)).passes for _ in range(3000))
    assert failures <= 12


@pytest.mark.parametrize(("wrong", "word"), [("wide", "under-confident"), ("narrow", "over-confident"), ("shifted", "too low")])
def test_a_wrong_posterior_is_caught(rng, wrong, word) -> None:
    """An sd wrong by 10 % moves the variance of z by 0.17 or more, 3.3 of its limits' sigmas beyond; a shift of 0.1 sd its mean by
    6.3 standard errors. Power by theory: 0.98 and 0.96 or more; of 200 studies at least 180 (192 expected, 4 sigma below).
    """
    caught, words = 0, []
    for _ in range(200):
        z = rng.standard_normal(N)
        z = {"wide": z / 1.1, "narrow": z / 0.9, "shifted": z + 0.1}[wrong]
        found = judge(special.ndtr(z))
        caught += not found.passes
        words.append(found.words)
    by_variance = stats.norm.cdf((abs(1 / 1.21 - 1) - SIGMAS * np.sqrt(2 / N)) / (np.sqrt(2 / N) / 1.21))
    by_mean = stats.norm.cdf(0.1 * np.sqrt(N) - SIGMAS)
    assert min(by_variance, by_mean) > 0.95
    assert caught >= 180
    assert sum(word in line for line in words) >= 180


def test_coverage_and_histogram(rng) -> None:
    u = rng.random(N)
    found = judge(u)
    for level, covered, low, high in zip(LEVELS, found.coverage, found.coverage_low, found.coverage_high, strict=True):
        assert covered == np.mean((u >= 0.5 - level / 2) & (u <= 0.5 + level / 2))
        assert low < level < high
        assert high - low == pytest.approx(3.92 * np.sqrt(level * (1 - level) / N), rel=0.1)
    counts, low, high = histogram(u)
    assert counts.sum() == N
    assert low < N / 20 < high
