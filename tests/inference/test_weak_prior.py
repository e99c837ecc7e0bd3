"""Columns that fill little of their bounds, as those do whose bounds nobody looked up: the weak
prior leaves them to the release.

Where 85 % or more of intervals hold the truth, fewer than 66 of 100, or 8 of 20, do so in one run
of a million. A prior about the bounds' own size had none at a twentieth of them.
"""

import numpy as np
import pytest
from scipy import stats

import noisewise
from noisewise import Bounds, families, noise

LEAST = {100: 66, 20: 8}


def held(releases: list[noisewise.Release], **truth: float) -> list[int]:
    """How many 90 % intervals hold each of the truths."""
    found = noisewise.infer_many(releases, "weak", draws=10)
    below = {name: [one.cdf(name, value) for one in found] for name, value in truth.items()}
    return [sum(0.05 < u < 0.95 for u in values) for values in below.values()]


@pytest.mark.parametrize("outside", ["clamp", "redact"])
@pytest.mark.parametrize("mean", [12.0, 3.0, 0.6])
def test_means_of_waits_within_an_hour(outside: str, mean: float, rng: np.random.Generator) -> None:
    bounds, law = Bounds(0, 60, outside=outside), noise.Laplace(60 / 2.0)
    x = rng.exponential(mean, (100, 200))
    kept = np.minimum(x, 60) if outside == "clamp" else np.where(x <= 60, x, 0)
    noisy = kept.sum(axis=1) + law.simulate(rng, 100)[:, 0]
    releases = [
        noisewise.observe(
            family=families.Exponential(), n=200, statistic=y, noise=law, bounds=bounds
        )
        for y in noisy
    ]
    assert held(releases, rate=1 / mean)[0] >= LEAST[100]


@pytest.mark.parametrize("outside", ["clamp", "redact"])
def test_sds_of_a_twentieth_of_the_bounds(outside: str, rng: np.random.Generator) -> None:
    bounds, law = Bounds(0, 100, outside=outside), noise.Laplace(2.25 / 1.0)
    x = rng.normal(20, 5, (20, 500))
    u = np.where((x >= 0) & (x <= 100), (x - 50) / 50, 0 if outside == "redact" else -1)
    noisy = np.stack([u.sum(axis=1), (u * u).sum(axis=1)], axis=1)
    noisy += law.broadcast(2).simulate(rng, 20)
    releases = [
        noisewise.observe(
            family=families.Normal(), n=500, statistic=y, noise=law, bounds=bounds,
            coordinates="standardised",
        )
        for y in noisy.tolist()
    ]  # fmt: skip
    assert min(held(releases, mean=20.0, variance=25.0)) >= LEAST[20]


@pytest.mark.parametrize(
    ("family", "bounds", "parameter", "size"),
    [
        (families.Exponential(), (0, 60), "rate", 12 / 60),
        (families.Gamma(shape=3.0), (0, 60), "rate", 3 * 12 / 60),
        (families.Weibull(shape=2.0), (0, 60), "rate", 12 / 60**2),
        (families.Pareto(minimum=2), (2, 200), "index", 12 / np.log(100)),
        (families.Normal(), (-10, 54), "variance", 16.0),
        (families.Normal(mean=0.0), (-10, 54), "variance", 16.0),
        (families.LogNormal(), (0.1, 10), "log_variance", (np.log(100) / 16) ** 2),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_every_family_has_it_by_its_own_names(
    family: families.Family, bounds: tuple[float, float], parameter: str, size: float
) -> None:
    prior = family.weak_prior(Bounds(*bounds, outside="clamp"))
    assert isinstance(prior, noisewise.priors.Independent)
    assert list(prior.distributions) == [one.name for one in family.parameters]
    median = prior.distributions[parameter].median()
    assert median == pytest.approx(size)
    low, high = prior.distributions[parameter].ppf([0.05, 0.95])
    assert high / low > 200  # two orders of magnitude, and more


def test_it_says_how_it_is_typed() -> None:
    bounds = Bounds(0, 60, outside="clamp")
    weak = families.Normal().weak_prior(bounds)
    assert str(weak) == "mean ~ norm(loc=30, scale=30), variance ~ lognorm(s=2.4, scale=14.0625)"
    mean = stats.norm(loc=30, scale=30)
    typed = noisewise.priors.Independent(
        mean=mean, variance=stats.lognorm(s=2.4, scale=(60 / 16) ** 2)
    )
    assert weak == typed
