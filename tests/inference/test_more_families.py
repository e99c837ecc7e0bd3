"""The families of transformed columns, of counts and of two free parameters: their posteriors
against simulation, their calibration, what they refuse, and the quantities that people use.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise
from chance import FALSE_ALARM
from noisewise import Bounds, families, infer, infer_many, noise, priors
from noisewise.errors import UnsupportedCombination
from noisewise.inference.problem import prior_for
from noisewise.study.trials import Setting, uniforms

FAMILIES = [
    (families.LogNormal(), Bounds(1, 1000, outside="clamp"), (0.1, 0.2), (0.8, 0.8)),
    (families.LogNormal(), Bounds(1, 1000, outside="redact"), (0.1, 0.2), (0.8, 0.8)),
    (families.Weibull(shape=1.7), Bounds(0, 5, outside="redact"), (3.0,), (2.0,)),
    (families.Pareto(minimum=2), Bounds(3, 50, outside="clamp"), (0.8,), (1.0,)),
    (families.NegativeBinomial(size=2.5), Bounds(0, 12, outside="clamp"), (3.0,), (3.0,)),
    (families.Binomial(trials=8), None, (3.0,), (3.0,)),
    (families.Binomial(trials=8), Bounds(2, 6, outside="redact"), (3.0,), (3.0,)),
    (families.Gamma(), Bounds(0.1, 20, outside="clamp"), (4.0, 0.9), (4.0, 1.5)),
    (families.Beta(), Bounds(0.02, 0.98, outside="redact"), (-0.8, -0.9), (1.5, 1.5)),
]


def label(value: object) -> str:
    return getattr(value, "kind", None) or getattr(value, "outside", "")


def release_of(family, bounds, n, mean, scale):  # type: ignore[no-untyped-def]
    return noisewise.observe(
        family=family,
        n=n,
        statistic=[m * n for m in mean],
        noise=noise.Laplace(scale),
        bounds=bounds,
        coordinates="standardised" if family.polynomial else "plain",
    )


@pytest.mark.parametrize(("family", "bounds", "mean", "scale"), FAMILIES, ids=label)
@pytest.mark.parametrize("n", [1, 10])
def test_posteriors_are_those_of_simulated_records(  # type: ignore[no-untyped-def]
    family, bounds, mean, scale, n: int, rng: np.random.Generator
) -> None:
    """Parameters from the weak prior, records by SciPy-free sampling, each weighted by the noise at
    y. The distribution functions differ by more than 2.63 / sqrt(effective sample) and what the
    grid may err, 0.004, with probability 1e-6 (Kolmogorov).
    """
    release = release_of(family, bounds, n, mean, scale)
    prior = prior_for(release, "weak")
    own = release.bounds
    size = 60_000
    theta = prior.draw(rng, size)
    x = family.simulate(rng, theta, n)
    clipped = np.clip(x, own.lower, own.upper)
    if family.polynomial:
        low, high = np.log(own.lower), np.log(own.upper)
        u = (2 * np.log(clipped) - low - high) / (high - low)
        columns = (u, u * u)
    else:
        columns = family.statistic(clipped)
    kept = (x == clipped) if own.outside == "redact" else np.ones(x.shape, dtype=bool)
    sums = np.stack([(kept * column).sum(axis=1) for column in columns], axis=1)
    y = np.array(release.statistic)
    log_weight = -(np.abs(y - sums) / np.array(scale)).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    posterior = infer(release, "weak")
    assert posterior.method == "exact"
    limit = 2.63 * np.sqrt((weight**2).sum()) + 0.004
    for j, parameter in enumerate(family.parameters):
        order = np.argsort(theta[:, j])
        below, at = np.cumsum(weight[order])[::50], theta[order, j][::50]
        assert np.abs(posterior.cdf(parameter.name, at) - below).max() < limit


@pytest.mark.parametrize(
    ("family", "prior", "bounds", "n", "trials"),
    [
        (families.Weibull(shape=1.7), priors.Gamma(4, 10), (0.2, 4), 1000, 300),
        (families.Pareto(minimum=2), priors.Gamma(6, 3), (2, 20), 10**6, 300),
        (families.NegativeBinomial(size=2.5), priors.Beta(4, 6), (0, 12), 10**6, 300),
        (families.Binomial(trials=8), priors.Beta(3, 4), (0, 8), 100, 300),
        (families.LogNormal(), priors.NormalInverseGamma(2, 2, 4, 3), (0.5, 80), 10**6, 40),
        (
            families.Gamma(),
            priors.Independent(shape=stats.lognorm(0.6, scale=2), rate=stats.lognorm(0.6)),
            (0.1, 8),
            10**6,
            20,
        ),
    ],
    ids=label,
)
def test_calibrated(family, prior, bounds, n: int, trials: int, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    """A thin slice; the whole in bench/calibration.py."""
    setting = Setting(family, prior, Bounds(*bounds, outside="clamp"), n, 1.0)
    for u in uniforms(setting, trials, rng).values():
        assert stats.kstest(u, "uniform").pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize(
    ("family", "bounds", "said"),
    [
        (families.LogNormal(), (0, 10), "logarithms.*above 0, such as 0.01"),
        (families.Gamma(), (0, 10), "log x, which is not finite at 0.*such as 0.01"),
        (families.Beta(), (0, 1), "not finite at 0 and 1.*0.01 and 0.99"),
        (families.Pareto(minimum=2), (1, 10), "values from 2 to inf"),
        (families.Binomial(trials=8), (0, 9), "values from 0 to 8"),
    ],
    ids=label,
)
def test_bounds_that_leave_a_statistic_without_end_are_refused(  # type: ignore[no-untyped-def]
    family, bounds, said: str
) -> None:
    with pytest.raises(UnsupportedCombination, match=said):
        family.check_bounds(Bounds(*bounds, outside="clamp"))


def test_a_log_normal_column_is_a_normal_one_of_logarithms(rng: np.random.Generator) -> None:
    """The same records through the curator: without noise to speak of, the sums are those of u."""
    x = np.append(np.exp(rng.normal(2, 1, 500)), [np.nan, -3.0, 0.0, 1e9])
    for outside in ("clamp", "redact"):
        release = noisewise.release(
            pd.DataFrame({"x": x}),
            column="x",
            family=families.LogNormal(),
            bounds=Bounds(1, 100, outside=outside),
            epsilon=1e4,
            ledger=None,
        )
        middle = np.log(10)
        known = np.where(np.isnan(x), 10.0, x)
        u = (np.log(np.clip(known, 1, 100)) - middle) / middle
        kept = (known >= 1) & (known <= 100) if outside == "redact" else np.ones(x.size, dtype=bool)
        wanted = [(kept * u).sum(), (kept * u * u).sum()]
        np.testing.assert_allclose(release.statistic, wanted, atol=0.01)
        if outside == "clamp":  # under redact a wider population explains the sums too
            assert abs(infer(release, "weak").mean("log_mean") - 2) < 0.3


def test_a_binomial_needs_no_bounds() -> None:
    release = noisewise.release(
        pd.DataFrame({"x": [3, 5, 8, 0, 11]}),
        column="x",
        family=families.Binomial(trials=8),
        epsilon=1e4,
        ledger=None,
    )
    assert release.bounds == Bounds(0, 8, outside="clamp")
    assert abs(release.statistic[0] - 24) < 1


@pytest.mark.parametrize(
    ("family", "bounds", "mean", "scale"),
    [
        *FAMILIES,
        (families.Normal(), Bounds(-2, 3, outside="clamp"), (0.1, 0.2), (1.0, 1.0)),
        (families.Normal(mean=0.0), Bounds(-2, 3, outside="clamp"), (1.2,), (9.0,)),
        (families.Exponential(), Bounds(0, 60, outside="clamp"), (9.0,), (30.0,)),
        (families.Geometric(), Bounds(1, 9, outside="clamp"), (3.0,), (9.0,)),
        (families.Gamma(shape=2), Bounds(0, 60, outside="clamp"), (9.0,), (30.0,)),
    ],
    ids=label,
)
def test_derived_quantities_are_functions_of_the_parameters(  # type: ignore[no-untyped-def]
    family, bounds, mean, scale, rng: np.random.Generator
) -> None:
    """Against formulas written out here, at draws of the parameters: 20 000 of them tell a
    distribution function to 2.63 / sqrt(20 000) at a false-alarm rate of 1e-6, and draws of two
    parameters come from a grid that is smeared by 0.004.
    """
    release = release_of(family, bounds, 200, mean, scale)
    posterior = infer(release, "weak")
    drawn = posterior.draw(20_000, rng)
    formulas = {
        ("normal", "sd"): lambda variance, **_: np.sqrt(variance),
        ("log_normal", "log_sd"): lambda log_variance, **_: np.sqrt(log_variance),
        ("log_normal", "median"): lambda log_mean, **_: np.exp(log_mean),
        ("log_normal", "mean"): lambda log_mean, log_variance: np.exp(log_mean + log_variance / 2),
        ("exponential", "mean"): lambda rate: 1 / rate,
        ("geometric", "mean"): lambda probability: 1 / probability,
        ("weibull", "mean"): lambda rate: stats.weibull_min(1.7).mean() * rate ** (-1 / 1.7),
        ("negative_binomial", "mean"): lambda probability: 2.5 * (1 - probability) / probability,
        ("binomial", "mean"): lambda probability: 8 * probability,
        ("beta", "mean"): lambda alpha, beta: alpha / (alpha + beta),
        ("gamma", "mean"): lambda rate, shape=2.0: shape / rate,
        ("gamma", "sd"): lambda rate, shape=2.0: np.sqrt(shape) / rate,
    }
    rows = [row["name"] for row in posterior.summary()]
    assert rows == [*posterior.names, *posterior.derived]
    table = infer_many([release], "weak")
    assert [row["name"] for row in table.table()] == rows
    for name in posterior.derived:
        values = np.sort(formulas[family.kind, name](**drawn))
        at = values[100::400]
        share = (np.arange(values.size)[100::400] + 0.5) / values.size
        limit = 2.63 / np.sqrt(values.size) + 0.004
        assert np.abs(posterior.cdf(name, at) - share).max() < limit
        assert abs(float(table.cdf(name, at[20])[0]) - share[20]) < limit
        low, high = posterior.interval(name, 0.9)
        assert posterior.cdf(name, high) - posterior.cdf(name, low) == pytest.approx(0.9, abs=1e-3)
        middle, sd = posterior.mean(name), posterior.sd(name)
        if sd is not None:
            assert abs(middle - values.mean()) < 6 * sd / np.sqrt(values.size) + 0.01 * sd
        at, density = posterior.curve(name)
        assert np.trapezoid(density, at) == pytest.approx(0.996, abs=0.01)


def test_a_mean_that_does_not_exist_is_none() -> None:
    """1/rate has the mean b/(a - 1) under a gamma prior, and none where a is 1 or less; no record
    says nothing.
    """
    empty = release_of(families.Exponential(), Bounds(0, 60, outside="clamp"), 0, (0.0,), (30.0,))
    assert infer(empty, priors.Gamma(1, 20)).mean("mean") is None
    assert infer(empty, priors.Gamma(1.5, 20)).sd("mean") is None
    known = infer(empty, priors.Gamma(5, 20))
    assert known.mean("mean") == pytest.approx(20 / 4, rel=2e-3)
    assert known.sd("mean") == pytest.approx(20 / 4 / np.sqrt(3), rel=2e-2)
    assert "none" in str(infer(empty, priors.Gamma(1, 20)).summary())
    flat = release_of(families.Normal(), Bounds(-1, 1, outside="clamp"), 0, (0.0, 0.0), (9.0, 9.0))
    heavy = infer(flat, priors.NormalInverseGamma(0, 1, 0.8, 1))
    assert heavy.mean("variance") is None
    # E sqrt(v) = Gamma(a - 1/2) / Gamma(a) at scale 1
    wanted = stats.invgamma(0.8).expect(np.sqrt)
    assert heavy.mean("sd") == pytest.approx(wanted, rel=0.05)
    assert heavy.sd("sd") is None
