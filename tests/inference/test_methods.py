"""The other methods against independent answers: collapsed by quadrature, counts by enumeration,
OPS by integration.
"""

import itertools

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise
from chance import FALSE_ALARM
from noisewise import Bounds, NoisyCount, families, noise, priors
from noisewise.errors import NoisewiseError
from noisewise.inference.methods import diagnostics, gibbs, gibbs_sampler
from noisewise.inference.methods.categorical import chain
from noisewise.inference.observations import gather
from noisewise.mechanism.noise.gaussian import NORMAL
from noisewise.mechanism.noise.laplace import LAPLACE
from noisewise.study import baselines


@pytest.mark.parametrize("v", [1e-6, 0.3, 40.0, 1e6])
@pytest.mark.parametrize("b", [0.02, 1.0, 300.0])
@pytest.mark.parametrize("z", [0.0, 0.7, -5.0, 2000.0])
def test_normal_laplace_density(v, b, z) -> None:
    sd = np.sqrt(v)

    def log_integrand(s):  # type: ignore[no-untyped-def]
        return stats.norm.logpdf(s, 0, sd) - np.abs(z - s) / b

    peak = np.clip(z, -v / b, v / b)  # the concave integrand's maximum
    far = b * np.geomspace(1e-4, 45, 4000)
    around = np.sort(
        np.concatenate([peak + sd * np.linspace(-12, 12, 40001), z - far, [z], z + far])
    )
    value = log_integrand(around)
    wanted = np.log(np.trapezoid(np.exp(value - value.max()), around)) + value.max() - np.log(2 * b)
    found = LAPLACE.log_with_normal(np.array([z]), np.array([v]), np.array([b]))[0]
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("sd", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("correlation", [0.0, -0.9, 0.999])
@pytest.mark.parametrize("z", [(0.0, 0.0), (1.5, -0.4), (-2.0, 6.0)])
def test_two_laplace_statistics(sd, correlation, z) -> None:
    """Against a sum over 2 million values of the first statistic, closely spaced around both kinks.
    Noise of scale 1 and 2.
    """
    sd1, sd2, b1, b2 = sd, 3 * sd, 1.0, 2.0
    c, v2 = correlation * sd2 / sd1, sd2**2 * (1 - correlation**2)
    z1, z2 = z[0] * (sd1 + b1), z[1] * (sd2 + b2)
    close = np.concatenate(
        [-np.geomspace(1e-9, 1e5, 250_000)[::-1], np.geomspace(1e-9, 1e5, 250_000)]
    )
    second = z2 / c if c else 0.0
    e = np.unique(
        np.concatenate([z1 + close, second + close, np.linspace(-15 * sd1, 15 * sd1, 10**6)])
    )
    value = stats.norm.logpdf(e, 0, sd1) - np.abs(z1 - e) / b1 - np.log(2 * b1)
    value += LAPLACE.log_with_normal(z2 - c * e, np.array(v2), np.array(b2))
    wanted = np.log(np.trapezoid(np.exp(value - value.max()), e)) + value.max()
    covariance = np.array([[[sd1**2, c * sd1**2], [c * sd1**2, sd2**2]]])
    found = LAPLACE.log_with_normals(np.array([[z1, z2]]), covariance, np.array([[b1, b2]]))
    assert found[0] == pytest.approx(wanted, abs=5e-4)


def test_normal_laplace_keeps_its_digits_at_a_trillion_records() -> None:
    """n = 10^12, epsilon = 50: noise far below the sampling, so the density is the normal's to
    10^-9.
    """
    v, b = np.array([2.5e11]), np.array([0.02])
    assert LAPLACE.log_with_normal(np.array([3e5]), v, b)[0] == pytest.approx(
        stats.norm.logpdf(3e5, 0, np.sqrt(v[0])), abs=1e-8
    )


@pytest.mark.parametrize("rho", [-0.95, 0.0, 0.6])
@pytest.mark.parametrize("b", [(0.1, 0.2), (2.0, 1.0), (30.0, 50.0)])
def test_two_laplace_statistics_by_double_integration(rho, b) -> None:
    cov = np.array([[1.0, rho * 1.5], [rho * 1.5, 2.25]])
    for z in ((0.4, -0.3), (6.0, -2.0)):
        a, c = np.linspace(-9, 9, 2401), np.linspace(-13, 13, 2401)
        grid = np.exp(
            -(a[:, None] ** 2 - 2 * rho * a[:, None] * c / 1.5 + c**2 / 2.25) / (2 * (1 - rho**2))
            - np.abs(z[0] - a[:, None]) / b[0]
            - np.abs(z[1] - c) / b[1]
        )
        total = (
            grid.sum()
            * (a[1] - a[0])
            * (c[1] - c[0])
            / (2 * np.pi * np.sqrt(np.linalg.det(cov)) * 4 * b[0] * b[1])
        )
        found = LAPLACE.log_with_normals(np.array([z]), cov[None], np.array([b]))[0]
        assert found == pytest.approx(np.log(total), abs=0.02), (z, rho)


def test_collapsed_with_normal_noise_in_three_dimensions(rng) -> None:
    root = rng.standard_normal((3, 3))
    mean, cov = rng.standard_normal(3), root @ root.T
    y, scale = rng.standard_normal(3), np.array([0.5, 1.0, 2.0])
    found = NORMAL.log_with_normals((y - mean)[None], cov[None], scale[None])[0]
    assert found == pytest.approx(
        stats.multivariate_normal.logpdf(y, mean, cov + np.diag(scale**2))
    )


@pytest.mark.parametrize("a", [(0.2, 0.3, 0.4), (1.0, 1.0, 1.0), (4.0, 0.5, 2.0)])
@pytest.mark.parametrize(
    "law", [noise.Laplace(1.5), noise.DiscreteLaplace(3.0, 1.0), noise.Gaussian(2.0)], ids=str
)
def test_counts_against_enumeration(a, law) -> None:
    """K = 3, n = 12: all 91 tables. Means within 5 of the Monte Carlo errors that the certificate
    claims, sds within 2 %.
    """
    n, y = 12, np.array([7.0, 1.0, -2.0])
    concentration = np.array(a)
    tables = np.array(
        [(i, j, n - i - j) for i, j in itertools.product(range(n + 1), repeat=2) if i + j <= n],
        dtype=float,
    )
    log_weight = (special.gammaln(concentration + tables) - special.gammaln(tables + 1)).sum(axis=1)
    log_weight += law.broadcast(3).log_density(y - tables).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = (concentration + tables) / (concentration.sum() + n)
    wanted = weight @ mean
    sd = np.sqrt(
        weight @ (mean * (1 - mean) / (concentration.sum() + n + 1)) + weight @ (mean - wanted) ** 2
    )
    release = noisewise.observe(family=families.Categorical(3), n=n, statistic=y, noise=law)
    posterior = noisewise.infer(release, priors.Dirichlet(a), seed=4)
    assert np.abs(posterior.mean("probabilities") - wanted).max() < 5 * chain.ERROR * sd.max()
    assert posterior.sd("probabilities") == pytest.approx(sd, rel=0.02)
    cdf = weight @ special.betainc(
        concentration[0] + tables[:, 0], concentration[1:].sum() + n - tables[:, 0], 0.4
    )
    level = posterior.quantile("probabilities", min(max(float(cdf), 0.01), 0.99))[0]
    assert level == pytest.approx(0.4, abs=0.03 * sd[0] + 0.005)


def test_batched_counts_of_different_problems(rng) -> None:
    """One chain for each problem, as in a study: the mean over chains of each problem is that of
    its own run.
    """
    y = np.repeat(np.array([[9.0, 2.0, 1.0], [0.0, 4.0, 8.0]]), 600, axis=0)
    a, law = np.array([1.0, 2.0, 0.4]), noise.Laplace(1.0).broadcast(3)
    state = chain.start(y, 12, a, rng)
    total = np.zeros(y.shape)
    for step in range(160):
        state = chain.sweep(state, y, a, law, rng)
        total += state if step >= 40 else 0
    means = total.reshape(2, 600, 3).mean(axis=1) / 120
    for j in range(2):
        found = chain.sample([(y[600 * j], 12.0, law)], a, rng)
        assert np.abs(means[j] - found.counts.mean(axis=(0, 1))).max() < 0.06
    assert (state.sum(axis=1) == 12).all()


def test_diagnostics_of_an_autoregression(rng) -> None:
    """x' = 0.8 x + e has autocorrelation time (1 + 0.8)/(1 - 0.8) = 9."""
    x = np.zeros((20_000, 8, 1))
    noise_of = rng.standard_normal(x.shape)
    for t in range(1, len(x)):
        x[t] = 0.8 * x[t - 1] + noise_of[t]
    found = diagnostics.of(x)
    assert found.autocorrelation[0] == pytest.approx(9, rel=0.1)
    assert found.rhat[0] == pytest.approx(1, abs=0.005)
    apart = x + np.arange(8)[:, None]
    assert diagnostics.of(apart).rhat[0] > 1.2


@pytest.mark.parametrize("a", [(0.3, 0.3, 0.3), (0.3, 1.0, 5.0)])
@pytest.mark.parametrize("law", [noise.DiscreteLaplace(1.5, 1.0), noise.DiscreteGaussian(2.0, 1.0)])
@pytest.mark.parametrize("n_prior", [None, priors.Gamma(9, 1.0)])
def test_counts_of_an_unknown_total_by_enumeration(a, law, n_prior) -> None:
    """Every table of three counts up to 60 each, weighted; the mean and sd of each probability from
    its Beta mixture.
    """
    y, total = np.array([6.0, -2.0, 3.0]), sum(a)
    s = np.stack(np.meshgrid(*[np.arange(61.0)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    n = s.sum(axis=1)
    log_weight = (
        special.gammaln(n + 1)
        - special.gammaln(total + n)
        + law.broadcast(3).log_density(y - s).sum(axis=1)
    )
    log_weight += (special.gammaln(np.array(a) + s) - special.gammaln(s + 1)).sum(axis=1)
    if n_prior is not None:
        log_weight += n_prior.log_density(np.maximum(n, 1e-300)[:, None])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = (np.array(a) + s) / (total + n)[:, None]
    wanted = weight @ mean
    variance = weight @ (mean**2 + mean * (1 - mean) / (total + n + 1)[:, None]) - wanted**2
    release = noisewise.observe(family=families.Categorical(3), statistic=y, noise=law)
    posterior = noisewise.infer(release, priors.Dirichlet(a), n_prior=n_prior, seed=1)
    sd = np.sqrt(variance)
    assert np.abs(posterior.mean("probabilities") - wanted) / sd == pytest.approx(0, abs=0.03)
    assert posterior.sd("probabilities") == pytest.approx(sd, rel=0.03)
    assert posterior.draws["probabilities"].mean(axis=0) == pytest.approx(
        wanted, abs=0.1 * sd.max()
    )


@pytest.mark.parametrize(
    ("y0", "y", "b0", "b"),
    [
        (0.0, 0.0, 2.0, 2.0),
        (3.0, -2.0, 2.0, 2.0),
        (20.0, 15.0, 2.0, 2.0),
        (60.0, 10.0, 1.0, 1.0),
        (150.0, 90.0, 10.0, 3.0),
    ],
)
@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_unknown_n_by_enumeration(y0, y, b0, b, method) -> None:
    """A Bernoulli's count and sum, both with noise: every n and every sum, at 400 probabilities."""
    theta = (np.arange(400) + 0.5) / 400
    likelihood = np.zeros(theta.size)
    for n in range(int(y0 + 30 * b0) + 20):
        s = np.arange(n + 1)
        likelihood += np.exp(-np.abs(y0 - n) / b0) * (
            np.exp(-np.abs(y - s) / b) @ stats.binom.pmf(s[:, None], n, theta)
        )
    weight = likelihood * stats.beta.pdf(theta, 2, 3)
    weight /= weight.sum()
    mean = weight @ theta
    sd = np.sqrt(weight @ (theta - mean) ** 2)
    law = noise.DiscreteLaplace(b, 1.0)
    release = noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(y0, noise.DiscreteLaplace(b0, 1.0)),
        statistic=y,
        noise=law,
    )
    posterior = noisewise.infer(release, priors.Beta(2, 3), method=method)
    near = 0.01 if method == "exact" else 0.05
    assert posterior.mean("probability") == pytest.approx(mean, abs=near * sd)
    assert posterior.sd("probability") == pytest.approx(sd, rel=near)


def test_methods_that_need_a_public_n() -> None:
    release = noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(9.0, noise.Laplace(1.0)),
        statistic=4.0,
        noise=noise.Laplace(1.0),
    )
    with pytest.raises(NoisewiseError, match=r"gibbs needs a public n; use method='auto'"):
        noisewise.infer(release, priors.Beta(1, 1), method="gibbs")
    for wrong in ({"n": 9}, {"count": None}):
        with pytest.raises(ValueError, match=r"n or count, not both|give count"):
            noisewise.observe(
                **({"count": NoisyCount(9.0, noise.Laplace(1.0))} | wrong),
                family=families.Bernoulli(),
                statistic=4.0,
                noise=noise.Laplace(1.0),
            )


def test_gibbs_draws_counts_given_their_release(rng) -> None:
    """Every linear form of 200 000 draws against the normal that the matrices give, by KS at the
    suite's false-alarm rate.
    """
    n, p, size = 50, np.array([0.5, 0.3, 0.15, 0.05]), 200_000
    y, sigma2 = np.array([30.0, 10.0, 12.0, -3.0]), np.array([4.0, 50.0, 0.5, 9.0])
    covariance = n * (np.diag(p) - np.outer(p, p))
    gain = covariance @ np.linalg.inv(covariance + np.diag(sigma2))
    mean, covariance = n * p + gain @ (y - n * p), covariance - gain @ covariance
    every = (np.tile(a, (size, 1)) for a in (p, y, sigma2))
    draws = gibbs_sampler._product_of_counts(rng, n, *every)
    assert draws.sum(axis=1) == pytest.approx(n)
    forms = [*np.eye(4), *rng.standard_normal((6, 4))]
    for form in forms:
        normal = stats.norm(form @ mean, np.sqrt(form @ covariance @ form))
        assert stats.kstest(draws @ form, normal.cdf).pvalue > FALSE_ALARM / len(forms)


@pytest.mark.parametrize("miss", [1e-6, 0.02, 3.0, 200.0])
def test_gibbs_draws_the_variance_of_the_noise(miss, rng) -> None:
    """1/sigma^2 given a miss is inverse Gaussian (Park & Casella 2008); 100 000 draws, KS at the
    suite's false-alarm rate.
    """
    scale, size = 2.0, 100_000
    random = rng.standard_normal(size), rng.random(size)
    sigma2 = LAPLACE.mixing_variance(np.full(size, miss), np.full(size, scale), *random)
    mean, shape = 1 / (scale * miss), 1 / scale**2
    assert (
        stats.kstest(1 / sigma2, stats.invgauss(mu=mean / shape, scale=shape).cdf).pvalue
        > FALSE_ALARM
    )


def test_normal_noise_in_several_dimensions(rng) -> None:
    root = rng.standard_normal((6, 4, 4))
    covariance, z, scale = (
        root @ root.transpose(0, 2, 1),
        rng.standard_normal((6, 4)),
        rng.uniform(0.5, 2, (6, 4)),
    )
    wanted = [
        stats.multivariate_normal(cov=c + np.diag(s**2)).logpdf(x)
        for c, s, x in zip(covariance, scale, z, strict=True)
    ]
    covariance[5, 2, 2] = np.nan
    found = NORMAL.log_with_normals(z, covariance, scale)
    assert found[:5] == pytest.approx(wanted[:5], abs=1e-10)
    assert np.isnan(found[5])


def test_two_parameters_under_normal_noise_and_a_weak_prior() -> None:
    """Much data and little noise: the posterior is near the records' own mean and variance, however
    wide the prior.
    """
    bounds, n = Bounds(60, 220, outside="clamp"), 2000
    u = (np.array([120.0, 140.0]) - 140) / 80  # half the records at either
    release = noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=[n * u.mean(), n * (u**2).mean()],
        noise=noise.DiscreteGaussian(1.5, 2.0**-19),
        bounds=bounds,
        coordinates="standardised",
    )
    posterior = noisewise.infer(release, "weak")
    assert posterior.mean("mean") == pytest.approx(130, abs=0.5)
    assert posterior.mean("variance") == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("variant", ["joint", "paper"])
def test_gibbs_variants_with_redacted_records(variant) -> None:
    """n = 1000, epsilon = 1: both views of the model agree well, so each variant is near the exact
    posterior.
    """
    bounds = Bounds(0.01, 1.5, outside="redact")
    release = noisewise.observe(
        family=families.Exponential(),
        n=1000,
        statistic=400.0,
        noise=noise.Laplace(1.5),
        bounds=bounds,
    )
    # rules out the other explanation of the sum: rare and large waits, redacted
    prior = priors.Gamma(40, 20)
    exact = noisewise.infer(release, prior)
    posterior = noisewise.infer(release, prior, method="gibbs", variant=variant, seed=1)
    assert posterior.mean("rate") == pytest.approx(exact.mean("rate"), abs=0.35 * exact.sd("rate"))
    assert posterior.sd("rate") == pytest.approx(
        exact.sd("rate"), rel=0.35 if variant == "paper" else 0.1
    )


def test_gibbs_knows_what_the_released_sum_tells_of_the_full_one(monkeypatch) -> None:
    """A fifth of the records are clamped, and the noise is small: were the full sum drawn as if the
    released one told nothing of its spread, the sd would be a third too large. The draws are worth
    13 000, which tell an sd to 0.6 %: 5 of these.
    """
    monkeypatch.setattr(gibbs_sampler, "BURN_IN", 500)
    monkeypatch.setattr(gibbs, "LEAST_STEPS", 3000)
    release = noisewise.observe(
        family=families.Exponential(),
        n=200,
        statistic=75.0,
        noise=noise.Laplace(2.0),
        bounds=Bounds(0, 1.5, outside="clamp"),
    )
    exact = noisewise.infer(release, priors.Gamma(4, 4))
    drawn = noisewise.infer(release, priors.Gamma(4, 4), method="gibbs", seed=1)
    assert drawn.certificate.ess > 8000
    assert drawn.sd("rate") == pytest.approx(exact.sd("rate"), rel=0.03)
    assert drawn.mean("rate") == pytest.approx(exact.mean("rate"), abs=0.06 * exact.sd("rate"))


def test_gibbs_says_when_it_cannot_be_trusted() -> None:
    """n = 10^6, epsilon = 10^-4: 40 000 draws are worth a handful."""
    release = noisewise.observe(
        family=families.Bernoulli(), n=10**6, statistic=360_000.0, noise=noise.Laplace(1e4)
    )
    certificate = noisewise.infer(release, priors.Beta(10, 10), method="gibbs", seed=1).certificate
    assert certificate.ess < 400
    assert certificate.autocorrelation > 100
    said = " ".join(certificate.warnings)
    assert f"the draws are worth only {certificate.ess:.0f} independent ones" in said
    assert f"autocorrelation time {certificate.autocorrelation:.0f} steps" in said
    assert "use method='auto'" in said
    assert certificate.sentence.startswith("gibbs: as asked; R-hat ")
    assert all(
        f"WARNING: {one}".rstrip(".") in certificate.sentence for one in certificate.warnings
    )


@pytest.mark.thorough
def test_gibbs_in_standardised_coordinates() -> None:
    """The release's own coordinates: u = (x - 2)/4 over [-2, 6]; the exact method is the judge."""
    release = noisewise.observe(
        family=families.Normal(),
        n=400,
        statistic=[-60.0, 40.0],
        noise=noise.Laplace(4.0),
        bounds=Bounds(-2, 6, outside="clamp"),
        coordinates="standardised",
    )
    prior = priors.NormalInverseGamma(1.0, 1.0, 3.0, 4.0)
    exact, sampled = (
        noisewise.infer(release, prior),
        noisewise.infer(release, prior, method="gibbs", seed=1),
    )
    for name in exact.names:
        assert sampled.mean(name) == pytest.approx(exact.mean(name), abs=0.1 * exact.sd(name))
        assert sampled.sd(name) == pytest.approx(exact.sd(name), rel=0.1)


@pytest.mark.parametrize("successes", [0, 37, 100])
def test_ops_matches_its_definition(successes, rng) -> None:
    """Moments of (p(theta) p(x | theta))^tau on [0.1, 0.9] by integration; a z-test at the suite's
    false-alarm rate.
    """
    epsilon, n, alpha, beta = 40.0, 100, 10.0, 10.0
    tau = min(1.0, epsilon / 100 / (2 * np.log(9)))

    def density(t):  # type: ignore[no-untyped-def]
        return np.exp(
            tau * ((alpha - 1 + successes) * np.log(t) + (beta - 1 + n - successes) * np.log1p(-t))
        )

    total, first, second = (
        integrate.quad(lambda t, k=k: t**k * density(t), 0.1, 0.9)[0] for k in range(3)
    )
    mean, sd = first / total, np.sqrt(second / total - (first / total) ** 2)
    draws = np.concatenate(
        [baselines.ops(alpha, beta, successes, n, epsilon, rng) for _ in range(400)]
    )
    assert draws.min() >= 0.1
    assert draws.max() <= 0.9
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(draws.mean() - mean) < limit * sd / np.sqrt(draws.size)
    assert abs(draws.std() / sd - 1) < limit / np.sqrt(draws.size)


def test_naive_is_the_conjugate_update_of_a_possible_statistic() -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=10, statistic=-7.0, noise=noise.Laplace(5.0)
    )
    posterior = noisewise.infer(release, priors.Beta(2, 3), method="naive")
    assert posterior.mean("probability") == pytest.approx(2 / 15, rel=1e-4)
    for outside, possible in (("redact", 5.0), ("clamp", 20.0)):  # redacted records add 0
        within = noisewise.observe(
            family=families.Exponential(),
            n=10,
            statistic=5.0,
            noise=noise.Laplace(5.0),
            bounds=Bounds(2, 9, outside=outside),
        )
        naive = noisewise.infer(within, priors.Gamma(3, 2), method="naive")
        assert naive.mean("rate") == pytest.approx(13 / (2 + possible), rel=1e-4)
    three = noisewise.observe(
        family=families.Categorical(3), n=10, statistic=[-1.0, 5.0, 15.0], noise=noise.Laplace(5.0)
    )
    naive = noisewise.infer(three, priors.Dirichlet([1, 1, 1]), method="naive")
    assert naive.mean("probabilities") == pytest.approx([1 / 13, 3.5 / 13, 8.5 / 13])
    assert any("over-confident" in warning for warning in naive.certificate.warnings)


WEAK = [
    noisewise.observe(
        family=family,
        n=50,
        statistic=[1.0] * family.dimension,
        noise=noise.Laplace(1.0),
        bounds=bounds,
    )
    for family, bounds in (
        (families.Bernoulli(), None),
        (families.Categorical(4), None),
        (families.Exponential(), Bounds(0, 60, outside="clamp")),
        (families.Poisson(), Bounds(0, 9, outside="clamp")),
        (families.Geometric(), Bounds(1, 9, outside="clamp")),
        (families.Gamma(shape=2.0), Bounds(0, 9, outside="clamp")),
        (families.Normal(), Bounds(-3, 5, outside="clamp")),
        (families.Normal(mean=1.0), Bounds(-3, 5, outside="clamp")),
        (families.Normal(variance=1.0), Bounds(-3, 5, outside="clamp")),
    )
]


@pytest.mark.parametrize("release", WEAK, ids=lambda r: str(r.family))
def test_every_family_has_a_weak_prior(release) -> None:
    assert np.isfinite(
        noisewise.infer(release, "weak").mean(release.family.parameters[0].name)
    ).all()


CONJUGATE = {
    families.Exponential(): priors.Gamma(2, 20),
    families.Gamma(shape=2.0): priors.Gamma(2, 5),
    families.Normal(): priors.NormalInverseGamma(1, 0.1, 3, 9),
    families.Normal(mean=1.0): priors.InverseGamma(3, 9),
}
"""Of families whose weak prior is another."""


@pytest.mark.parametrize("release", WEAK, ids=lambda r: str(r.family))
@pytest.mark.parametrize("method", ["exact", "collapsed", "gibbs", "naive"])
def test_every_method_serves_or_says_why_not(release, method, monkeypatch) -> None:
    """From a release far from anything the prior expects; a number comes out, or one line that
    names another method.
    """
    monkeypatch.setattr(gibbs_sampler, "BURN_IN", 100)
    monkeypatch.setattr(gibbs, "LEAST_STEPS", 200)
    if method == "collapsed" and release.family.kind == "categorical":
        with pytest.raises(NoisewiseError, match="use method='exact'"):
            noisewise.infer(release, "weak", method=method)
        return
    prior = "weak"
    if method in ("gibbs", "naive") and release.family in CONJUGATE:
        with pytest.raises(NoisewiseError, match="needs the conjugate prior"):
            noisewise.infer(release, "weak", method=method)
        prior = CONJUGATE[release.family]
    posterior = noisewise.infer(release, prior, method=method, seed=1, draws=500)
    for row in posterior.summary():
        assert all(np.isfinite(row[column]) for column in ("mean", "sd", "5%", "50%", "95%"))
    certificate, says = posterior.certificate, posterior.certificate.sentence
    assert says.startswith(f"{method}: as asked")
    sampled = method == "gibbs" or (method == "naive" and release.family.kind == "categorical")
    assert ("numerical error about" in says) != sampled
    assert ("R-hat" in says) == (method == "gibbs")
    assert ("WARNING: naive ignores the noise" in says) == (method == "naive")
    assert says.count("WARNING: ") == len(certificate.warnings)


def test_a_coarse_lattice_is_modelled_as_what_it_is() -> None:
    """Exponential records rounded to whole numbers, discrete noise narrower than a step: against
    enumeration.
    """
    bounds, law = Bounds(0, 5, outside="clamp"), noise.DiscreteLaplace(0.3, 1.0)
    observations = gather(
        [
            noisewise.observe(
                family=families.Exponential(), n=3, statistic=4.0, noise=law, bounds=bounds
            )
        ]
    )
    rate = 0.8
    edges = np.array([0, 0.5, 1.5, 2.5, 3.5, 4.5, np.inf])
    p = np.diff(1 - np.exp(-rate * edges))
    sums = np.convolve(np.convolve(p, p), p)
    wanted = np.log(sums @ np.exp(law.log_density((4.0 - np.arange(sums.size))[:, None])[:, 0]))
    assert observations.exact(np.array([[rate]]), np.zeros(1, dtype=int))[0][0] == pytest.approx(
        wanted, abs=0.01
    )
