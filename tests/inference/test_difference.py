"""`difference`: independent draws, and only of different records."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import noisewise
from inference.test_pooling import bernoulli
from noisewise import Bounds, families, noise
from noisewise.errors import UnsupportedCombination


def test_difference_against_the_two_densities() -> None:
    a, b = noisewise.infer_many([bernoulli(200, 80.0), bernoulli(150, 45.0)], "weak", seed=4)
    value = noisewise.difference(a, b, "probability")
    gap = a.mean("probability") - b.mean("probability")
    sd = np.hypot(a.sd("probability"), b.sd("probability"))
    size = len(value.draws)
    assert abs(value.mean - gap) < 5 * sd / np.sqrt(size)  # 6e-7
    assert value.sd == pytest.approx(sd, rel=5 / np.sqrt(2 * size))
    # P(a > b) = integral of the density of a times the cdf of b
    theta, height = a.curve("probability")
    known = np.trapezoid(height * b.cdf("probability", theta), theta)
    error = np.sqrt(known * (1 - known) / size)
    limit = stats.norm.isf(5e-7)
    assert abs(value.probability(above=0) - known) < limit * error + 0.004  # the curve lacks tails
    low, high = value.interval(0.9)
    assert low < gap < high


def test_what_people_use_beside_a_parameter_is_compared_too() -> None:
    """The mean wait, of which a rate is one in so many minutes; against both its posteriors."""
    law, bounds = noise.Laplace(60.0), Bounds(0, 60, outside="clamp")
    a, b = noisewise.infer_many(
        [
            noisewise.observe(
                family=families.Exponential(), n=400, statistic=[y], noise=law, bounds=bounds
            )
            for y in (4000.0, 3200.0)
        ],
        "weak",
        seed=4,
    )
    value = noisewise.difference(a, b, "mean")
    sd = np.hypot(a.sd("mean"), b.sd("mean"))
    assert abs(value.mean - (a.mean("mean") - b.mean("mean"))) < 5 * sd / np.sqrt(4000)  # 6e-7
    assert value.sd == pytest.approx(sd, rel=5 / np.sqrt(2 * 4000))
    slower = noisewise.difference(b, a, "rate").probability(above=0)
    assert value.probability(above=0) == slower


def test_same_records_are_refused_and_disjoint_groups_are_not() -> None:
    one, other = (replace(bernoulli(90, y), dataset="d") for y in (20.0, 30.0))
    a, b = noisewise.infer_many([one, other], "weak")
    with pytest.raises(UnsupportedCombination, match="one dataset, 'd'"):
        noisewise.difference(a, b, "probability")
    apart = [replace(r, group=("ward", name)) for r, name in zip((one, other), "xy", strict=True)]
    a, b = noisewise.infer_many(apart, "weak")
    assert noisewise.difference(a, b, "probability").mean < 0
    whole = noisewise.infer(one, "weak")
    with pytest.raises(UnsupportedCombination, match="one dataset"):
        noisewise.difference(a, whole, "probability")
    with pytest.raises(UnsupportedCombination, match="twice"):
        noisewise.difference(a, a, "probability")
    with pytest.raises(UnsupportedCombination, match="no parameter"):
        noisewise.difference(a, b, "rate")
    with pytest.raises(UnsupportedCombination, match="infer from each"):
        noisewise.difference(one, other, "probability")
    pooled = noisewise.pool(apart)
    with pytest.raises(UnsupportedCombination, match=r"pooled\.difference"):
        noisewise.difference(pooled.groups[0], pooled.groups[1], "probability")
