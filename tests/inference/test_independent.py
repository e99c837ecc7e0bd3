"""Any prior: `priors.Independent` against quadrature and simulation that know nothing of the
package, and what it refuses.
"""

import numpy as np
import pytest
from scipy import stats

import noisewise
from noisewise import Bounds, families, infer, infer_many, noise, priors
from noisewise.artifact import NoisyCount
from noisewise.errors import NoisewiseError, UnsupportedCombination
from noisewise.model import notation


def read_off(x: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Mean, sd, 5, 50 and 95 % of a density on a fine grid, by the trapezoidal rule."""
    weight = np.exp(log_density - log_density.max()) * np.gradient(x)
    weight /= weight.sum()
    mean = weight @ x
    sd = np.sqrt(weight @ (x - mean) ** 2)
    below = np.cumsum(weight) - weight / 2
    return np.array([mean, sd, *np.interp([0.05, 0.5, 0.95], below, x)])


def figures(posterior: noisewise.Posterior, name: str) -> np.ndarray:
    row = next(row for row in posterior.summary() if row["name"] == name)
    return np.array([np.nan if v is None else v for v in list(row.values())[1:]], dtype=float)


def close(found: np.ndarray, wanted: np.ndarray, sds: float) -> None:
    assert np.abs(found - wanted).max() < sds * wanted[1], (found, wanted)


def sum_of_waits(rate: np.ndarray, bounds: Bounds, n: int, y: float, scale: float) -> np.ndarray:
    """log p(y | rate) for n bounded exponential records, each in one of 1500 cells, by FFT."""
    cells = 1500
    edges = np.linspace(bounds.lower, bounds.upper, cells + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    step = middle[1] - middle[0]
    size = 1 << int(np.ceil(np.log2(n * (cells + 1) + 2)))
    out = []
    for one in rate:
        law = np.zeros(size)  # of (x - the first middle) / step; clamped
        law[:cells] = np.diff(stats.expon.cdf(edges, scale=1 / one))
        law[0] += stats.expon.cdf(bounds.lower, scale=1 / one)
        law[cells - 1] += stats.expon.sf(bounds.upper, scale=1 / one)
        total = np.fft.irfft(np.fft.rfft(law) ** n, size)
        at = n * middle[0] + step * np.arange(size)
        out.append(np.log(np.maximum(total, 0) @ np.exp(-np.abs(y - at) / scale)))
    return np.array(out)


@pytest.mark.parametrize("n", [1, 10])
@pytest.mark.parametrize(
    ("law", "ends"),
    [
        (stats.lognorm(s=1, scale=0.1), (1e-4, 100.0)),
        (stats.uniform(0.05, 0.3), (0.05, 0.35)),
        (stats.halfcauchy(scale=0.1), (1e-6, 200.0)),
    ],
    ids=lambda v: v.dist.name if hasattr(v, "dist") else "",
)
def test_one_parameter_against_quadrature(n: int, law, ends) -> None:  # type: ignore[no-untyped-def]
    bounds, y, scale = Bounds(0, 30, outside="clamp"), 5.5 * n, 4.0
    release = noisewise.observe(
        family=families.Exponential(),
        n=n,
        statistic=y,
        noise=noise.Laplace(scale),
        bounds=bounds,
    )
    posterior = infer(release, priors.Independent(rate=law))
    rate = np.exp(np.linspace(*np.log(ends), 600))
    log_density = law.logpdf(rate) + sum_of_waits(rate, bounds, n, y, scale)
    wanted = read_off(rate, log_density)
    assert posterior.method == "exact"
    found = figures(posterior, "rate")
    if law.dist.name == "halfcauchy":  # which has no mean, nor has the posterior
        assert np.isnan(found[:2]).all() == (n == 1)  # ... at n = 10 beyond anything that matters
        np.testing.assert_allclose(found[2:], wanted[2:], rtol=0.01)
    else:
        close(found, wanted, 0.01)


def test_a_probability_within_half_its_range_against_a_sum(rng: np.random.Generator) -> None:
    """Also by collapsed, to what the normal approximation loses, and with every count unknown."""
    n, y, b = 20, 13.3, 2.0
    release = noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=y, noise=noise.Laplace(b)
    )
    for law in (stats.uniform(0, 0.5), stats.truncnorm(-2, 2, loc=0.5, scale=0.2)):
        low, high = law.support()
        p = np.linspace(low, high, 4001)
        counts = stats.binom.pmf(np.arange(n + 1)[:, None], n, p)
        seen = np.log(np.exp(-np.abs(y - np.arange(n + 1)) / b) @ counts)
        wanted = read_off(p, law.logpdf(p) + seen)
        prior = priors.Independent(probability=law)
        close(figures(infer(release, prior), "probability"), wanted, 0.002)
        crude = infer(release, prior, method="collapsed")
        assert crude.method == "collapsed"
        close(figures(crude, "probability"), wanted, 0.05)
    counted = noisewise.observe(
        family=families.Bernoulli(),
        statistic=y,
        noise=noise.Laplace(b),
        count=NoisyCount(21.0, noise.Laplace(b)),
    )
    law = stats.beta(2, 3)
    p = np.linspace(1e-6, 1 - 1e-6, 1001)
    seen = 0.0
    for size in range(70):
        of = stats.binom.pmf(np.arange(size + 1)[:, None], size, p)
        seen = seen + np.exp(-abs(21 - size) / b) * (
            np.exp(-np.abs(y - np.arange(size + 1)) / b) @ of
        )
    wanted = read_off(p, law.logpdf(p) + np.log(seen))
    close(
        figures(infer(counted, priors.Independent(probability=law)), "probability"), wanted, 0.005
    )


def truncated_moments(
    mean: np.ndarray, variance: np.ndarray, bounds: Bounds
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (2,) and covariance of (u, u^2) of a clamped normal record, by a plain sum over u."""
    u = np.linspace(-1, 1, 4001)
    x = bounds.middle + bounds.radius * u
    sd = np.sqrt(variance)
    weight = stats.norm.pdf(x, mean, sd) * bounds.radius * (u[1] - u[0])
    weight[[0, -1]] /= 2
    weight[[0, -1]] += stats.norm.cdf(bounds.lower, mean, sd), stats.norm.sf(bounds.upper, mean, sd)
    weight /= weight.sum()
    t = np.stack([u, u * u])
    centre = t @ weight
    away = t - centre[:, None]
    return centre, (away * weight) @ away.T


def test_two_parameters_against_quadrature_where_sums_are_normal() -> None:
    """n = 10^5: the sums are normal, and with normal noise the likelihood is a normal density."""
    n, bounds = 10**5, Bounds(-2, 3, outside="clamp")
    y, scale = np.array([0.1, 0.25]) * n, 60.0
    law = {"mean": stats.norm(0.5, 0.4), "variance": stats.lognorm(s=0.5)}
    release = noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=y,
        noise=noise.Gaussian(scale),
        bounds=bounds,
        coordinates="standardised",
    )
    posterior = infer(release, priors.Independent(**law))
    middle = [posterior.quantile(name, 0.5) for name in ("mean", "variance")]
    spread = [posterior.sd(name) for name in ("mean", "variance")]
    axes = [np.linspace(m - 6 * s, m + 6 * s, 41) for m, s in zip(middle, spread, strict=True)]
    table = np.empty((41, 41))
    for i, mean in enumerate(axes[0]):
        for j, variance in enumerate(axes[1]):
            centre, covariance = truncated_moments(mean, variance, bounds)
            table[i, j] = stats.multivariate_normal.logpdf(
                y, n * centre, n * covariance + scale**2 * np.eye(2)
            )
    table += law["mean"].logpdf(axes[0])[:, None] + law["variance"].logpdf(axes[1])
    mass = np.exp(table - table.max())
    for name, axis, margin in zip(
        ("mean", "variance"), axes, (mass.sum(axis=1), mass.sum(axis=0)), strict=True
    ):
        fine = np.linspace(axis[0], axis[-1], 4001)
        log_margin = np.log(np.maximum(margin, 1e-300))
        wanted = read_off(fine, np.interp(fine, axis, log_margin))
        # interpolated linearly in the log: the sd of 0.3 of a step is lost
        close(figures(posterior, name), wanted, 0.02)


@pytest.mark.parametrize(
    ("mean", "variance"),
    [
        (stats.norm(0, 2), stats.invgamma(2, scale=1)),
        (stats.uniform(-1, 3), stats.gamma(2)),
    ],
    ids=["unbounded", "bounded"],
)
@pytest.mark.parametrize(("n", "outside"), [(1, "clamp"), (10, "redact")])
def test_two_parameters_against_simulation(  # type: ignore[no-untyped-def]
    mean, variance, n: int, outside: str, rng: np.random.Generator
) -> None:
    """Parameters from the prior and records from them, each weighted by the noise at y: no grid, no
    transform. The distribution functions differ by more than 2.63 / sqrt(effective sample) and what
    the grid may err, 0.004, with probability 1e-6 (Kolmogorov).
    """
    bounds, y, scale = Bounds(-2, 3, outside=outside), np.array([0.12, 0.2]) * n, 0.8
    size = 150_000
    draws = [law.rvs(size, random_state=rng) for law in (mean, variance)]
    x = draws[0][:, None] + np.sqrt(draws[1])[:, None] * rng.standard_normal((size, n))
    u = (np.clip(x, -2, 3) - 0.5) / 2.5
    kept = (x >= -2) & (x <= 3) if outside == "redact" else np.ones(x.shape, dtype=bool)
    sums = np.stack([(kept * u).sum(axis=1), (kept * u * u).sum(axis=1)], axis=1)
    weight = np.exp(-np.abs(y - sums).sum(axis=1) / scale)
    weight /= weight.sum()
    release = noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=y,
        noise=noise.Laplace(scale),
        bounds=bounds,
        coordinates="standardised",
    )
    posterior = infer(release, priors.Independent(variance=variance, mean=mean))
    limit = 2.63 * np.sqrt((weight**2).sum()) + 0.004
    for name, values in zip(("mean", "variance"), draws, strict=True):
        order = np.argsort(values)
        below = np.cumsum(weight[order])[::50]
        at = values[order][::50]
        assert np.abs(posterior.cdf(name, at) - below).max() < limit


def waits(n: int = 100, y: float = 900.0) -> noisewise.Release:
    return noisewise.observe(
        family=families.Exponential(),
        n=n,
        statistic=y,
        noise=noise.Laplace(30.0),
        bounds=Bounds(0, 60, outside="clamp"),
    )


def test_the_conjugate_prior_written_as_scipys_is_the_same_prior() -> None:
    ours = infer(waits(), priors.Gamma(2, 20))
    theirs = infer(waits(), "rate ~ gamma(a=2, scale=0.05)")
    np.testing.assert_allclose(figures(theirs, "rate"), figures(ours, "rate"), rtol=1e-3)
    assert theirs.certificate.predictive_tail == pytest.approx(
        ours.certificate.predictive_tail, abs=0.1
    )
    far = infer(waits(y=5900.0), "rate ~ gamma(a=200, scale=0.0005)")
    assert any("surpris" in said or "disagree" in said for said in far.certificate.warnings)


def test_many_groups_with_priors_of_their_own_are_each_as_alone() -> None:
    releases = [waits(), waits(50, 600.0), waits(200, 1900.0)]
    given = [
        priors.Independent(rate=stats.lognorm(s=1, scale=0.1)),
        priors.Independent(rate=stats.uniform(0.01, 0.2)),
        priors.Gamma(2, 20),
    ]
    together = infer_many(releases, given)
    for one, release, prior in zip(together, releases, given, strict=True):
        np.testing.assert_allclose(
            figures(one, "rate"), figures(infer(release, prior), "rate"), rtol=2e-3
        )
    assert [row["name"] for row in together.table()].count("rate") == 3


@pytest.mark.parametrize("method", ["gibbs", "naive"])
def test_methods_that_need_the_conjugate_prior_say_so(method: str) -> None:
    with pytest.raises(UnsupportedCombination, match=rf"{method} needs the conjugate prior.*auto"):
        infer(waits(), "rate ~ lognorm(s=1, scale=0.1)", method=method)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate ~ norm(loc=0, scale=1)", "0.5 of its mass below 0.*rate ~ lognorm"),
        ("rate ~ norm(scale=-1)", "no proper distribution"),
        ("rate ~ poisson(mu=3)", "no continuous distribution"),
        ("rate ~ lognorm()", r"its settings are: lognorm\(s="),
        ("rate ~ lognorm(s=print(1))", "cannot read"),
        ("rate ~ __import__('os')", "no continuous distribution|cannot read"),
        ("speed ~ lognorm(s=1)", "exponential family has rate"),
        ("rate ~ lognorm(s=1), shape ~ lognorm(s=1)", "exponential family has rate"),
        ("rate ~ lognorm(s=1), rate ~ lognorm(s=1)", "cannot read the prior"),
        ("rate ~", "cannot read"),
        ("rate ~ gamma(a=[1, 2])", "must be numbers"),
        ("~ gamma(a=2)", "cannot read the prior"),
    ],
)
def test_what_is_no_prior_of_the_family_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(NoisewiseError, match=said) as caught:
        infer(waits(), text)
    assert "\n" not in str(caught.value)


def test_what_is_no_frozen_distribution_is_refused() -> None:
    for wrong in (stats.lognorm, stats.poisson(3), 2.0, stats.norm([0, 1])):
        with pytest.raises(UnsupportedCombination, match=r"needs a|must be finite numbers"):
            priors.Independent(rate=wrong)
    with pytest.raises(UnsupportedCombination, match="dirichlet"):
        infer(
            noisewise.observe(
                family=families.Categorical(3),
                n=10,
                statistic=[3, 3, 4],
                noise=noise.Laplace(1.0),
            ),
            "probabilities ~ uniform()",
        )


def test_text_and_object_are_one_prior() -> None:
    text = "mean ~ norm(loc=0, scale=2), variance ~ invgamma(a=2, scale=1)"
    prior = notation.prior(text)
    assert str(prior) == text
    assert prior == priors.Independent(
        mean=stats.norm(loc=0, scale=2), variance=stats.invgamma(a=2, scale=1)
    )
    assert prior != priors.Independent(mean=stats.norm(0, 1), variance=stats.gamma(2))


@pytest.mark.parametrize("ends", [(1e-6, 1e6), (1e-8, 100.0), (1e-12, 1e3), (1e-3, 1.0)])
def test_a_prior_that_starts_just_above_nothing(ends: tuple[float, float]) -> None:
    """Log-uniform, of few events: much of the posterior lies at the lower end of the prior, of
    which an axis that is cut too early sees nothing. A sum of Poissons is Poisson, but for the tail
    beyond 15.
    """
    n, y, scale = 50, 5.0, 15.0
    release = noisewise.observe(
        family=families.Poisson(),
        n=n,
        statistic=[y],
        noise=noise.Laplace(scale),
        bounds=Bounds(0, 15, outside="clamp"),
    )
    found = infer(release, f"rate ~ loguniform({ends[0]}, {ends[1]})")
    rate = np.exp(np.linspace(*np.log(ends), 60_001))  # as likely as each other beforehand
    total = np.arange(n * 15 + 1)
    near = rate < 10  # of larger ones no posterior is left
    kernel = np.exp(-np.abs(y - total) / scale)
    likelihood = np.zeros(rate.size)
    for part in np.array_split(np.flatnonzero(near), 100):
        likelihood[part] = stats.poisson.pmf(total, n * rate[part, None]) @ kernel
    below = np.cumsum(likelihood) / likelihood.sum()
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = np.interp(np.log(found.quantile("rate", q)), np.log(rate), below)
        assert abs(at - q) < 2e-3
