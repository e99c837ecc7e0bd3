"""Posteriors against independent answers: the reference cases, enumeration, integration, and what
breaks samplers.
"""

import numpy as np
import pytest
from scipy import special, stats

import noisewise
from inference import oracle
from noisewise import Bounds, families, noise, priors
from noisewise.inference.observations import gather
from noisewise.inference.posterior import Posterior

GIBBS = [
    pytest.param(c, marks=pytest.mark.thorough if c["family"]["kind"] == "normal" else ())
    for c in oracle.CASES
    if c["n"] >= 100
]


@pytest.mark.parametrize("case", oracle.CASES, ids=lambda c: c["id"])
@pytest.mark.parametrize("method", ["auto", "exact"])
def test_the_reference_posteriors(case, method) -> None:
    posterior = noisewise.infer(
        oracle.release_of(case), oracle.prior_of(case), method=method, seed=1
    )
    assert posterior.method == "exact"
    for mean, sd, quantiles, mcse in oracle.misses(posterior, case):
        assert mean < 0.02 + 4 * mcse
        assert sd < 0.02
        assert quantiles < 0.04
    assert posterior.certificate.numerical_error < 0.005
    assert posterior.certificate.warnings == ()


@pytest.mark.parametrize("case", GIBBS, ids=lambda c: c["id"])
def test_gibbs_on_the_reference_posteriors(case) -> None:
    posterior = noisewise.infer(
        oracle.release_of(case), oracle.prior_of(case), method="gibbs", draws=40_000, seed=1
    )
    assert posterior.certificate.rhat < 1.01
    for mean, sd, _, _ in oracle.misses(posterior, case):
        assert mean < 0.1
        assert sd < 0.1


def grid_posterior(log_density, low, high, points=200_001):  # type: ignore[no-untyped-def]
    """Mean and sd of an unnormalised log density of theta, by the trapezoid rule."""
    theta = np.linspace(low, high, points)[1:-1]
    value = log_density(theta)
    weight = np.exp(value - value.max())
    mean = (weight * theta).sum() / weight.sum()
    return mean, np.sqrt((weight * (theta - mean) ** 2).sum() / weight.sum())


def bernoulli(n, y, b, alpha, beta):  # type: ignore[no-untyped-def]
    """The Bernoulli's posterior by enumeration: a mixture of Beta(alpha + s, beta + n - s)."""
    s = np.arange(n + 1.0)
    log_weight = (
        special.gammaln(n + 1)
        - special.gammaln(s + 1)
        - special.gammaln(n - s + 1)
        + special.betaln(alpha + s, beta + n - s)
        - np.abs(y - s) / b
    )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = (alpha + s) / (alpha + beta + n)
    within = mean * (1 - mean) / (alpha + beta + n + 1)
    centre = (weight * mean).sum()
    return centre, np.sqrt((weight * (within + (mean - centre) ** 2)).sum())


def check(posterior: Posterior, mean: float, sd: float, tolerance: float = 0.003) -> None:
    name = posterior.names[0]
    assert posterior.mean(name) == pytest.approx(mean, abs=tolerance * sd)
    assert posterior.sd(name) == pytest.approx(sd, rel=tolerance)
    draws = posterior.draws[name]
    assert abs(draws.mean() - mean) < 6 * sd / np.sqrt(draws.size)


@pytest.mark.parametrize(
    ("n", "y", "epsilon", "alpha", "beta"),
    [
        (10, 1.7, 1.0, 1, 20),
        (10, -3.0, 0.5, 1, 20),
        (1, 0.9, 1.0, 1, 1),
        (1000, -500.0, 0.1, 10, 10),
        (1000, 5000.0, 0.1, 10, 10),
        (1000, 5000.0, 5.0, 1, 1),
        (1000, -500.0, 5.0, 1, 20),
        (1000, 300.0, 1e-6, 3, 4),
        (1000, 300.0, 50.0, 3, 4),
        (1000, 990.0, 50.0, 1, 200),
        (200_000, 70_000.0, 1e-4, 10, 10),
        (2000, 3.0, 1.0, 0.02, 5.0),
        (50, 50.0, 2.0, 4.0, 0.05),
    ],
)
def test_the_bernoulli_against_enumeration(n, y, epsilon, alpha, beta) -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=y, noise=noise.Laplace(1 / epsilon)
    )
    check(
        noisewise.infer(release, priors.Beta(alpha, beta), seed=2),
        *bernoulli(n, y, 1 / epsilon, alpha, beta),
    )


def test_a_million_records_at_a_ten_thousandth() -> None:
    """n = 10^6, epsilon = 10^-4: the chains of the paper are worth one draw; the count is then a
    continuum.
    """
    n, y, b = 10**6, 362_000.0, 1e4
    release = noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=y, noise=noise.Laplace(b)
    )
    check(noisewise.infer(release, priors.Beta(10, 10), seed=2), *bernoulli(n, y, b, 10, 10))


def test_at_a_tiny_epsilon_the_posterior_is_the_prior() -> None:
    bounds = Bounds(0, 2, outside="clamp")
    release = noisewise.observe(
        family=families.Exponential(), n=100, statistic=1e4, noise=noise.Laplace(2e6), bounds=bounds
    )
    posterior = noisewise.infer(release, priors.Gamma(3, 2), seed=2)
    check(posterior, 1.5, np.sqrt(3) / 2, 0.004)
    assert posterior.quantile("rate", 0.9) == pytest.approx(
        stats.gamma.ppf(0.9, 3, scale=0.5), rel=0.003
    )


def test_at_a_large_epsilon_a_truncated_release_gives_the_posterior_given_its_statistic() -> None:
    """epsilon = 50: p(theta | s^), with s^ of n = 2 by direct integration over one
    record's value.
    """
    b, y, bounds = 0.03, 1.1, Bounds(0.1, 1.5, outside="clamp")
    release = noisewise.observe(
        family=families.Exponential(), n=2, statistic=y, noise=noise.Laplace(b), bounds=bounds
    )
    edges = np.linspace(0.1, 1.5, 3001)
    middle = (edges[1:] + edges[:-1]) / 2
    t = np.concatenate([[0.1], middle, [1.5]])

    def log_density(rate):  # type: ignore[no-untyped-def]
        cdf = -np.expm1(-np.outer(rate, edges))
        mass = np.column_stack([cdf[:, 0], np.diff(cdf, axis=1), 1 - cdf[:, -1]])
        noise_of = np.exp(-np.abs(y - t[:, None] - t[None, :]) / b)
        return np.log(
            np.einsum("ri,ij,rj->r", mass, noise_of, mass, optimize=True)
        ) + stats.gamma.logpdf(rate, 3, scale=0.5)

    check(
        noisewise.infer(release, priors.Gamma(3, 2), seed=2),
        *grid_posterior(log_density, 1e-3, 14, 2001),
        0.004,
    )


@pytest.mark.parametrize("outside", ["redact", "clamp"])
def test_bounds_far_in_a_tail(outside, rng) -> None:
    """Two records of a thousand are expected inside: against 4 million simulations weighted by the
    noise.
    """
    prior, n, bounds, b = priors.Gamma(40, 20), 1000, Bounds(3.0, 4.0, outside=outside), 1.0
    size = 4_000_000
    rate = prior.draw(rng, size)[:, 0]
    inside = rng.binomial(n, np.exp(-3 * rate) - np.exp(-4 * rate))
    beyond = rng.binomial(
        n - inside, np.exp(-4 * rate) / (1 - np.exp(-3 * rate) + np.exp(-4 * rate))
    )
    sums = np.zeros(size)
    most = int(inside.max())
    for k in range(most):
        rows = inside > k
        u = rng.random(rows.sum())
        sums[rows] += 3 - np.log1p(-u * -np.expm1(-rate[rows])) / rate[rows]
    if outside == "clamp":
        sums += 4.0 * beyond + 3.0 * (n - inside - beyond)
    y = float(np.median(sums)) + 2.0
    weight = np.exp(-np.abs(y - sums) / b)
    mean = (weight * rate).sum() / weight.sum()
    sd = np.sqrt((weight * (rate - mean) ** 2).sum() / weight.sum())
    effective = weight.sum() ** 2 / (weight**2).sum()
    release = noisewise.observe(
        family=families.Exponential(), n=n, statistic=y, noise=noise.Laplace(b), bounds=bounds
    )
    posterior = noisewise.infer(release, prior, seed=2)
    assert posterior.mean("rate") == pytest.approx(mean, abs=(0.005 + 5 / np.sqrt(effective)) * sd)
    assert posterior.sd("rate") == pytest.approx(sd, rel=0.005 + 5 / np.sqrt(2 * effective))


def test_a_statistic_so_far_out_that_the_likelihood_underflows() -> None:
    """y is 10^5 noise scales from anything possible: the likelihood is e^-100000, the posterior
    that of y at the end of the range.
    """
    release = noisewise.observe(
        family=families.Bernoulli(), n=100, statistic=1e5, noise=noise.Laplace(1.0)
    )
    posterior = noisewise.infer(release, priors.Beta(5, 5), seed=2)
    check(posterior, *bernoulli(100, 1e5, 1.0, 5, 5))
    assert posterior.certificate.predictive_tail < 1e-3
    assert any("disagree" in warning for warning in posterior.certificate.warnings)


def test_two_narrow_peaks_far_apart() -> None:
    """Redacted sums that a high rate explains as well as a low one: against the likelihood at 40
    001 points.
    """
    release = noisewise.observe(
        family=families.Exponential(),
        n=60_000,
        statistic=0.3559 * 60_000,
        noise=noise.Laplace(0.7),
        bounds=Bounds(0.01, 1.5, outside="redact"),
    )
    prior = priors.Gamma(2, 2)
    posterior = noisewise.infer(release, prior)
    assert posterior.certificate.peaks == 2
    psi = np.linspace(np.log(0.3), np.log(4), 40_001)
    log_density = prior.log_density(np.exp(psi)[:, None]) + psi
    near = np.flatnonzero(
        np.abs(
            gather([release]).collapsed(np.exp(psi)[:, None], np.zeros(psi.size, dtype=int)) + 20
        )
        < 60
    )
    value = np.full(psi.size, -np.inf)
    value[near] = (
        gather([release]).exact(np.exp(psi[near])[:, None], np.zeros(near.size, dtype=int))[0]
        + log_density[near]
    )
    weight = np.exp(value - value.max())
    weight /= weight.sum()
    mean = weight @ np.exp(psi)
    sd = np.sqrt(weight @ (np.exp(psi) - mean) ** 2)
    assert weight[psi < np.log(1.5)].sum() == pytest.approx(0.5, abs=0.49)  # both peaks count
    assert posterior.mean("rate") == pytest.approx(mean, abs=2e-3 * sd)
    assert posterior.sd("rate") == pytest.approx(sd, rel=2e-3)


def test_two_parameters_with_rows_far_below_the_peak() -> None:
    """A release of which whole rows of the grid underflow: every figure is still a number, and the
    draws agree with them.
    """
    release = noisewise.observe(
        family=families.Normal(),
        n=1000,
        statistic=[80.55588150024414, 64.33025741577148],
        noise=noise.DiscreteLaplace(2.25 / 8, 2.0**-19),
        bounds=Bounds(-5, 5, outside="redact"),
        coordinates="standardised",
    )
    posterior = noisewise.infer(release, priors.NormalInverseGamma(0.0, 2.0, 4.0, 3.0), seed=1)
    for name, near in (("mean", 0.40), ("variance", 1.45)):
        assert posterior.mean(name) == pytest.approx(near, abs=0.1)
        low, middle, high = (posterior.quantile(name, q) for q in (0.05, 0.5, 0.95))
        assert low < middle < high
        assert np.quantile(posterior.draws[name], 0.5) == pytest.approx(
            middle, abs=0.1 * posterior.sd(name)
        )


@pytest.mark.thorough
def test_two_parameters_with_a_narrow_peak_in_a_wide_range() -> None:
    """A thousand records, redacted: the collapsed range holds a far, wide peak too. Against the
    exact likelihood, integrated.
    """
    release = noisewise.observe(
        family=families.Normal(),
        n=1000,
        statistic=[116.6965389251709, 96.51703834533691],
        noise=noise.Laplace([1.5, 1.5]),
        bounds=Bounds(-3, 3, outside="redact"),
        coordinates="standardised",
    )
    prior = priors.NormalInverseGamma(0.0, 2.0, 4.0, 3.0)
    posterior = noisewise.infer(release, prior)
    thetas, masses = [], []
    # a narrow peak, and a far one of 0.2 %
    for of_mean, of_variance in (((0.1, 0.7), (0.5, 1.4)), ((2.5, 7.5), (1.5, 20.0))):
        m, v = np.linspace(*of_mean, 121), np.geomspace(*of_variance, 121)
        theta = np.stack([column.ravel() for column in np.meshgrid(m, v, indexing="ij")], axis=1)
        value = gather([release]).exact(theta, np.zeros(len(theta), dtype=int))[
            0
        ] + prior.log_density(theta)
        thetas.append(theta)
        masses.append(np.exp(value) * (m[1] - m[0]) * theta[:, 1] * np.log(v[1] / v[0]))
    theta, weight = np.concatenate(thetas), np.concatenate(masses)
    weight /= weight.sum()
    assert 1e-4 < weight[len(thetas[0]) :].sum() < 0.01
    for j, name in enumerate(("mean", "variance")):
        mean = weight @ theta[:, j]
        sd = np.sqrt(weight @ (theta[:, j] - mean) ** 2)
        assert posterior.mean(name) == pytest.approx(mean, abs=0.01 * sd)
        assert posterior.sd(name) == pytest.approx(sd, rel=0.01)
    assert posterior.certificate.numerical_error < 0.01


def test_no_records_leave_the_prior() -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=0, statistic=4.0, noise=noise.Laplace(10.0)
    )
    check(noisewise.infer(release, priors.Beta(2, 6), seed=2), 0.25, np.sqrt(12 / 64 / 9))


def test_several_releases_multiply() -> None:
    """Two releases of different records; the product of their likelihoods by enumeration."""
    first = noisewise.observe(
        family=families.Bernoulli(), n=40, statistic=11.0, noise=noise.Laplace(2.0)
    )
    second = noisewise.observe(
        family=families.Bernoulli(), n=90, statistic=40.0, noise=noise.Laplace(5.0), dataset="b"
    )

    def log_density(p):  # type: ignore[no-untyped-def]
        total = stats.beta.logpdf(p, 2, 2)
        for n, y, b in ((40, 11.0, 2.0), (90, 40.0, 5.0)):
            s = np.arange(n + 1)
            total = total + np.log(stats.binom.pmf(s, n, p[:, None]) @ np.exp(-np.abs(y - s) / b))
        return total

    posterior = noisewise.infer([first, second], priors.Beta(2, 2), seed=2)
    check(posterior, *grid_posterior(log_density, 0, 1, 4001))
    assert posterior.certificate.assumptions == (
        "releases without a dataset are taken to be of different records",
    )


def test_several_categorical_releases_against_enumeration() -> None:
    """Two releases of 12 and 9 records in three categories: every pair of count
    vectors, weighted.
    """
    a, scales, sizes = np.array([0.7, 1.5, 2.0]), (2.0, 3.0), (12, 9)
    ys = np.array([5.3, 8.1, -2.0]), np.array([1.2, 6.5, 3.3])
    releases = [
        noisewise.observe(family=families.Categorical(3), n=n, statistic=y, noise=noise.Laplace(b))
        for n, y, b in zip(sizes, ys, scales, strict=True)
    ]
    tables = []
    for n, y, b in zip(sizes, ys, scales, strict=True):
        s = np.array(
            [(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)], dtype=float
        )
        tables.append((s, -special.gammaln(s + 1).sum(axis=1) - np.abs(y - s).sum(axis=1) / b))
    together = tables[0][0][:, None, :] + tables[1][0][None, :, :]
    weight = (
        tables[0][1][:, None] + tables[1][1][None, :] + special.gammaln(a + together).sum(axis=2)
    )
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    share = (a + together) / (a.sum() + sum(sizes))
    mean = np.einsum("ij,ijk->k", weight, share)
    second = np.einsum("ij,ijk->k", weight, share * (a + together + 1) / (a.sum() + sum(sizes) + 1))
    sd = np.sqrt(second - mean**2)
    posterior = noisewise.infer(releases, priors.Dirichlet(list(a)), seed=3)
    assert posterior.mean("probabilities") == pytest.approx(mean, abs=0.02 * sd.min())
    assert posterior.sd("probabilities") == pytest.approx(sd, rel=0.02)
