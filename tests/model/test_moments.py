"""Truncated moments: closed form, autodiff of Lemma 1 and quadrature agree to 1e-8 wherever two of
them exist.
"""

import numpy as np
import pytest

from cases import CASES, TRUNCATED, Case, name
from noisewise import Bounds, families
from noisewise.errors import UnsupportedCombination
from noisewise.model.bounded_statistic import bounded_moments
from noisewise.model.moments import interval_moments

TOLERANCE = 1e-8
truncated = pytest.mark.parametrize("case", TRUNCATED, ids=name)


def assert_agree(case: Case, theta, interval, methods) -> None:  # type: ignore[no-untyped-def]
    """Relative errors: of the probability, of the mean against |mean| + sd, of the covariance
    against sd_i sd_j.
    """
    results = [interval_moments(case.family, theta, *interval, method) for method in methods]
    truth = results[0]
    sd = np.sqrt(np.einsum("bdd->bd", truth.covariance))
    for other in results[1:]:
        assert np.abs(other.log_probability - truth.log_probability).max() < TOLERANCE
        assert (np.abs(other.mean - truth.mean) / (np.abs(truth.mean) + sd)).max() < TOLERANCE
        assert (
            np.abs(other.covariance - truth.covariance) / (sd[:, :, None] * sd[:, None, :])
        ).max() < TOLERANCE


def methods_of(case: Case, theta, interval) -> list[str]:  # type: ignore[no-untyped-def]
    """Those that there are; for a normal's logarithms, whose intervals may be a hundredth of an sd
    wide, in which differences lose their digits, quadrature and `auto`, which knows.
    """
    with np.errstate(all="ignore"):
        closed = case.family.closed_moments(theta, *interval)
    if closed is not None and np.isnan(closed.mean).any() and case.family.kind == "log_normal":
        return ["quadrature", "auto"]
    return ["quadrature"] + ["closed"] * (closed is not None) + ["autodiff"] * case.derivatives


@truncated
def test_three_methods_agree_on_stated_intervals(case: Case, rng: np.random.Generator) -> None:
    theta = case.theta(rng)
    for interval in case.intervals:
        assert_agree(case, theta, interval, methods_of(case, theta, interval))
        assert_agree(case, theta, interval, ["quadrature", "auto"])


@truncated
def test_three_methods_agree_on_random_intervals(case: Case, rng: np.random.Generator) -> None:
    """Each interval starts at a random record and is a quarter to eight sd wide; one in three lies
    5 to 20 sd out in a tail.
    """
    for trial in range(18):
        theta = case.theta(rng, 1)
        records = case.family.simulate(rng, theta, 100)[0]
        sd = max(records.std(), 1.0 if case.family.integer else 0.0)
        start = records[0] + (sd * rng.uniform(5, 20) if trial % 3 == 0 else 0.0)
        width = sd * np.exp(rng.uniform(np.log(0.25), np.log(8)))
        interval = (
            (np.floor(start), np.floor(start) + np.ceil(width))
            if case.family.integer
            else (start, start + width)
        )
        if case.family.support[0] <= interval[0] <= interval[1] <= case.family.support[1]:
            assert_agree(case, theta, interval, methods_of(case, theta, interval))


def test_the_plain_difference_of_cdfs_would_fail() -> None:
    """At 40 means the plain difference is NaN in log space; every method here still agrees (DESIGN
    4a).
    """
    family, theta = families.Exponential(), np.ones((1, 1))
    with np.errstate(divide="ignore"):
        plain = np.log(np.diff(family.cdf(np.array([40.0, 41.0]), theta)[0]))
    assert not np.isfinite(plain).all()
    for method in ("closed", "autodiff", "quadrature"):
        found = interval_moments(family, theta, 40.0, 41.0, method)
        np.testing.assert_allclose(found.log_probability, -40 + np.log(-np.expm1(-1)), rtol=1e-12)


@pytest.mark.parametrize("sds", [10, 20, 40, 100])
def test_normal_far_in_the_tail(sds: float) -> None:
    """Given x > a, the excess is nearly exponential with rate a: mean a + 1/a - 2/a^3, variance
    1/a^2 - 6/a^4 + 50/a^6.
    """
    found = interval_moments(families.Normal(variance=1.0), np.zeros((1, 1)), float(sds), np.inf)
    assert abs(found.mean[0, 0] - (sds + 1 / sds - 2 / sds**3)) < 20 / sds**5
    assert abs(found.covariance[0, 0, 0] - (1 / sds**2 - 6 / sds**4 + 50 / sds**6)) < 1000 / sds**8


@truncated
@pytest.mark.parametrize("outside", ["redact", "clamp"])
def test_bounded_moments_match_simulation(
    case: Case, outside: str, rng: np.random.Generator
) -> None:
    theta = case.theta(rng, 1)
    for bounds in case.bounds(outside)[:2]:
        assert bounds is not None
        found = bounded_moments(case.family, theta, bounds)
        x = case.family.simulate(rng, theta, 400_000)[0]
        low, high = (
            (np.ceil(bounds.lower), np.floor(bounds.upper))
            if case.family.integer
            else (bounds.lower, bounds.upper)
        )
        t = np.stack([np.asarray(c, float) for c in case.family.statistic(x)], -1)
        clipped = np.stack(
            [np.asarray(c, float) for c in case.family.statistic(np.clip(x, low, high))], -1
        )
        bounded = clipped if outside == "clamp" else clipped * ((x >= low) & (x <= high))[:, None]
        for exact, sample in (
            (found.bounded_mean, bounded),
            (found.bounded_covariance, _products(bounded, bounded)),
            (found.cross, _products(t, bounded)),
            (found.mean, t),
        ):
            error = sample.std(0) / np.sqrt(len(sample))
            # 6 sd: 2e-9 under a normal law, and well below 1e-6 with the heavier tails of products.
            assert (np.abs(sample.mean(0) - exact[0]) < 6 * error + 1e-12).all()


def _products(a, b):  # type: ignore[no-untyped-def]
    return (a - a.mean(0))[:, :, None] * (b - b.mean(0))[:, None, :]


def test_standardised_theta_is_theta_of_u(rng: np.random.Generator) -> None:
    family, bounds = families.Normal(), Bounds(20, 80, outside="clamp")
    theta = np.array([[47.0, 90.0]])
    records = family.simulate(rng, theta, 5)
    u = (records - 50) / 30
    jacobian = np.log(30)
    np.testing.assert_allclose(
        family.log_density(u, family.standardise(theta, bounds)),
        family.log_density(records, theta) + jacobian,
    )


def test_what_cannot_be_had_is_named() -> None:
    bare = next(case for case in CASES if case.family.kind == "bernoulli")
    with pytest.raises(UnsupportedCombination, match="no closed form"):
        interval_moments(bare.family, np.full((1, 1), 0.5), 0, 1, "closed")
    with pytest.raises(UnsupportedCombination, match="log_probability"):
        interval_moments(bare.family, np.full((1, 1), 0.5), 0, 1, "autodiff")
    with pytest.raises(UnsupportedCombination, match="unknown method"):
        interval_moments(bare.family, np.full((1, 1), 0.5), 0, 1, "magic")
