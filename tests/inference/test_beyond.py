"""What a posterior expects beyond the bounds, and when it warns of that."""

import numpy as np
import pytest

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.inference.certificate import LEANS
from noisewise.model.bounded_statistic import shares_beyond

N = 5000
"""Records of a table."""


def normal_release(x: np.ndarray, outside: str, noise_scale: float = 3.0) -> noisewise.Release:
    """Of records within 0 to 60, as a curator would make it."""
    bounds = Bounds(0, 60, outside=outside)
    kept = x[(x >= 0) & (x <= 60)] if outside == "redact" else np.clip(x, 0, 60)
    u = (kept - bounds.middle) / bounds.radius
    return noisewise.observe(
        family=families.Normal(),
        n=x.size,
        statistic=[u.sum(), (u * u).sum()],
        noise=noise.Laplace(noise_scale),
        bounds=bounds,
        coordinates="standardised",
    )


def visits(rng: np.random.Generator) -> np.ndarray:
    """Doctor visits of a year: about half of the people have none, and some up to 60."""
    counts = rng.negative_binomial(0.9, 0.9 / (0.9 + 4.8), N)
    return np.where(rng.random(N) < 0.3, 0, counts).clip(0, 60)


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_a_normal_of_visits_leans_on_its_tail_and_says_so(
    rng: np.random.Generator, method: str
) -> None:
    x = visits(rng)
    assert (x == 0).mean() > 0.4
    posterior = noisewise.infer(normal_release(x, "clamp"), "weak", method=method, seed=1)
    assert posterior.mean("mean") < 0 < x.mean()
    certificate = posterior.certificate
    assert certificate.beyond is not None
    assert certificate.beyond.below > 0.4
    assert certificate.beyond.above < 0.001
    (said,) = [one for one in certificate.warnings if "leans on the family's shape" in one]
    assert "% below 0, beyond the bounds" in said
    assert "families.Moments" in said
    assert "wider bounds or another family" in said
    assert certificate.sentence.count("expects") == 1


def test_few_beyond_the_bounds_can_decide_and_it_says_what_would_be_without_them(
    rng: np.random.Generator,
) -> None:
    """Skewed records of which all lie within the bounds. A redacted one counts as if it lay in the
    middle, so that two in a hundred, which the normal expects below 0, move the mean by a tenth.
    """
    x = np.minimum(rng.gamma(2.8, 2.0, N), 60.0)
    posterior = noisewise.infer(normal_release(x, "redact"), "weak", seed=1)
    assert posterior.interval("mean", 0.99)[1] < x.mean() - 0.1
    assert posterior.interval("sd", 0.99)[1] < x.std() - 0.5
    beyond = posterior.certificate.beyond
    assert beyond is not None
    assert beyond.largest < LEANS
    assert beyond.moved is not None
    assert beyond.moved.sds > 3
    assert beyond.moved.name in ("mean", "variance")
    records = {"mean": x.mean(), "variance": x.var()}
    assert beyond.moved.without == pytest.approx(records[beyond.moved.name], rel=0.03)
    (said,) = posterior.certificate.warnings
    assert f"were nobody there, {beyond.moved.name} would be about" in said
    clamped = noisewise.infer(normal_release(x, "clamp"), "weak", seed=1)
    assert any("leans on the family's shape" in one for one in clamped.certificate.warnings)


def test_few_beyond_the_bounds_matter_to_many_records_alone(rng: np.random.Generator) -> None:
    """A quarter of a percent of exponential records, clamped: a quarter of a percent of the mean,
    which a thousand records cannot tell and a million can.
    """
    for n, leans in ((1000, False), (10**6, True)):
        total = n * 10 * -np.expm1(-6.0)
        release = noisewise.observe(
            family=families.Exponential(),
            n=n,
            statistic=total,
            noise=noise.Laplace(120.0),
            bounds=Bounds(0, 60, outside="clamp"),
        )
        beyond = noisewise.infer(release, "weak", seed=1).certificate.beyond
        assert beyond is not None
        assert beyond.above == pytest.approx(np.exp(-6), rel=0.3)
        assert beyond.leans == leans
        assert beyond.moved is not None
        if leans:
            assert beyond.moved.without == pytest.approx(0.1 / -np.expm1(-6.0), rel=1e-3)
            assert beyond.moved.sds == pytest.approx(0.0025 * np.sqrt(n), rel=0.2)


@pytest.mark.parametrize("outside", ["clamp", "redact"])
def test_a_normal_well_within_its_bounds_does_not_warn(
    rng: np.random.Generator, outside: str
) -> None:
    x = rng.normal(40, 6, N)
    certificate = noisewise.infer(normal_release(x, outside), "weak", seed=1).certificate
    assert certificate.beyond is not None
    assert certificate.beyond.largest < 0.001
    assert certificate.warnings == ()
    assert "of the records the family expects hardly any beyond the bounds" in certificate.sentence


def test_the_share_is_that_of_the_records(rng: np.random.Generator) -> None:
    """At n = 5000 a posterior knows the rate to 1.4 %, and exp(-rate 20) to 0.03 of itself."""
    x = rng.exponential(10, N)
    releases = [
        noisewise.observe(
            family=families.Exponential(),
            n=N,
            statistic=float(np.clip(x, 0, 20).sum() + rng.laplace(0, 20)),
            noise=noise.Laplace(20.0),
            bounds=Bounds(0, 20, outside="clamp"),
        )
        for _ in range(2)
    ]
    prior = priors.Gamma(2, 20)
    by_chains = noisewise.infer(releases[0], prior, method="gibbs", chains=2, seed=1)
    for posterior in (*noisewise.infer_many(releases, prior), by_chains):
        beyond = posterior.certificate.beyond
        assert beyond is not None
        assert beyond.below == 0
        assert beyond.above == pytest.approx((x > 20).mean(), abs=6 * 0.03 * 0.135)
        assert beyond.above > LEANS
        assert any("% above 20" in one for one in posterior.certificate.warnings)


def test_several_releases_are_judged_by_the_bounds_with_most_beyond() -> None:
    def release(upper: float, total: float, dataset: str) -> noisewise.Release:
        return noisewise.observe(
            family=families.Exponential(),
            n=1000,
            statistic=total,
            noise=noise.Laplace(20.0),
            bounds=Bounds(0, upper, outside="clamp"),
            dataset=dataset,
        )

    both = [release(100, 10_000, "a"), release(10, 6_321, "b")]
    beyond = noisewise.infer(both, "weak").certificate.beyond
    assert beyond is not None
    assert beyond.upper == 10
    assert beyond.above == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize(
    ("family", "theta", "bounds", "law"),
    [
        (families.Poisson(), [4.0], (2, 6), lambda rng, k: rng.poisson(4.0, k)),
        (families.Poisson(), [4.0], (1.5, 6.5), lambda rng, k: rng.poisson(4.0, k)),
        (families.Geometric(), [0.3], (2, 5), lambda rng, k: rng.geometric(0.3, k)),
        (families.LogNormal(), [1.0, 0.5], (2, 6), lambda rng, k: rng.lognormal(1, 0.5**0.5, k)),
        (families.Beta(), [2.0, 3.0], (0.2, 0.7), lambda rng, k: rng.beta(2, 3, k)),
        (families.Binomial(trials=8), [0.4], (2, 5), lambda rng, k: rng.binomial(8, 0.4, k)),
        (families.Binomial(trials=8), [0.4], (0, 8), lambda rng, k: rng.binomial(8, 0.4, k)),
    ],
)
def test_shares_are_those_of_simulated_records(rng, family, theta, bounds, law) -> None:
    """False alarms: 6 sds of a share, both sides of 7 cases, below 10^-7."""
    size = 40_000
    x = law(rng, size)
    own = Bounds(*bounds, outside="redact")
    below, above = shares_beyond(family, np.array([theta]), own)[0]
    for share, simulated in ((below, (x < own.lower).mean()), (above, (x > own.upper).mean())):
        assert simulated == pytest.approx(share, abs=6 * np.sqrt(share * (1 - share) / size))


def test_a_family_that_ends_at_its_bounds_expects_nothing_beyond() -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=100, statistic=30.0, noise=noise.Laplace(1.0)
    )
    assert noisewise.infer(release, "weak").certificate.beyond is None
    release = noisewise.observe(
        family=families.Binomial(trials=8), n=100, statistic=300.0, noise=noise.Laplace(8.0)
    )
    beyond = noisewise.infer(release, "weak").certificate.beyond
    assert beyond is not None
    assert beyond.largest == 0
