"""Every family: its density, distribution function, moments, simulator and conjugate update agree
with each other.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from cases import CASES, CONJUGATE, Case, name
from chance import FALSE_ALARM
from noisewise import families
from noisewise.errors import UnsupportedCombination
from noisewise.model import autodiff, quadrature

every_family = pytest.mark.parametrize("case", CASES, ids=name)
conjugate = pytest.mark.parametrize("case", CONJUGATE, ids=name)


def test_every_registered_family_of_one_column_has_a_case() -> None:
    several = {families.Moments.kind, families.Table.kind}
    built_in = {
        kind for kind, make in families.REGISTRY.items() if make.__module__.startswith("noisewise.")
    } - several
    assert built_in == {case.family.kind for case in CASES}


@every_family
def test_density_integrates_to_one_and_gives_the_mean_and_covariance(
    case: Case, rng: np.random.Generator
) -> None:
    theta = case.theta(rng)
    whole = quadrature.interval_moments(case.family, theta, *case.family.support)
    np.testing.assert_allclose(whole.log_probability, 0, atol=1e-10)
    np.testing.assert_allclose(whole.mean, case.family.mean(theta), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        whole.covariance, case.family.covariance(theta), rtol=1e-8, atol=1e-10
    )


@every_family
def test_moments_are_derivatives_of_the_log_partition(case: Case, rng: np.random.Generator) -> None:
    theta = case.theta(rng)
    mean, covariance = autodiff.cumulants(case.family, theta)
    np.testing.assert_allclose(mean, case.family.mean(theta), rtol=1e-9)
    np.testing.assert_allclose(covariance, case.family.covariance(theta), rtol=1e-8, atol=1e-12)


def law_of(family: families.Family, theta: np.ndarray):  # type: ignore[no-untyped-def]
    """SciPy's own law of a record, at one theta."""
    match family.kind:
        case "bernoulli":
            return stats.bernoulli(theta[0])
        case "categorical":
            return stats.rv_discrete(values=(np.arange(theta.size), theta))
        case "exponential":
            return stats.expon(scale=1 / theta[0])
        case "poisson":
            return stats.poisson(theta[0])
        case "geometric":
            return stats.geom(theta[0])
        case "gamma":
            shape = theta[0] if theta.size == 2 else family.shape  # type: ignore[attr-defined]
            return stats.gamma(shape, scale=1 / theta[-1])
        case "log_normal":
            return stats.lognorm(np.sqrt(theta[1]), scale=np.exp(theta[0]))
        case "weibull":
            shape = family.shape  # type: ignore[attr-defined]
            return stats.weibull_min(shape, scale=theta[0] ** (-1 / shape))
        case "pareto":
            return stats.pareto(theta[0], scale=family.minimum)  # type: ignore[attr-defined]
        case "negative_binomial":
            return stats.nbinom(family.size, theta[0])  # type: ignore[attr-defined]
        case "binomial":
            return stats.binom(family.trials, theta[0])  # type: ignore[attr-defined]
        case "beta":
            return stats.beta(*theta)
        case "normal":
            known = family.describe()
            mean = theta[0] if known.get("mean") is None else known["mean"]
            variance = theta[-1] if known.get("variance") is None else known["variance"]
            return stats.norm(mean, np.sqrt(variance))
    raise AssertionError(f"no law of {family.kind} to hold it against")


@every_family
def test_log_density_is_that_of_scipy(case: Case, rng: np.random.Generator) -> None:
    """Both as the family computes it and in the form t(x) eta - A(eta) + log h(x) of an exponential
    family, which must have the same constant.
    """
    theta = case.theta(rng)
    x = case.family.simulate(rng, theta, 50)
    form = (
        np.einsum("bd,bmd->bm", case.family.natural(theta), case.family.statistics(x))
        - case.family.log_partition(case.family.natural(theta))[:, None]
        + case.family.log_base_measure(x)
    )
    own = case.family.log_density(x, theta)
    for row, one in enumerate(theta):
        law = law_of(case.family, one)
        wanted = law.logpmf(x[row]) if case.family.integer else law.logpdf(x[row])
        np.testing.assert_allclose(own[row], wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(form[row], wanted, rtol=1e-9, atol=1e-9)


@every_family
def test_density_sums_to_one_over_the_support(case: Case, rng: np.random.Generator) -> None:
    """By SciPy's adaptive quadrature or a plain sum, neither of which the families know."""
    theta = case.theta(rng, 2)
    low, high = case.family.support
    for one in theta:
        if case.family.integer:
            x = np.arange(low, min(high, 2000.0) + 1)
            total = np.exp(case.family.log_density(x, one[None])).sum()
        else:
            law = law_of(case.family, one)
            cuts = [low, *law.ppf([1e-9, 1e-3, 0.5, 0.999, 1 - 1e-9]), high]

            def density(v: float, one: np.ndarray = one) -> float:
                return float(np.exp(case.family.log_density(np.array([v]), one[None]))[0, 0])

            total = sum(integrate.quad(density, a, b, epsabs=1e-12)[0] for a, b in pairwise(cuts))
        assert total == pytest.approx(1, abs=1e-7)


@every_family
def test_cdf_is_the_integral_of_the_density(case: Case, rng: np.random.Generator) -> None:
    theta = case.theta(rng)
    for x in case.family.simulate(rng, theta[:1], 4)[0]:
        below = quadrature.interval_moments(case.family, theta, case.family.support[0], x)
        np.testing.assert_allclose(
            np.exp(below.log_probability),
            case.family.cdf(np.array([x]), theta)[:, 0],
            rtol=1e-8,
            atol=1e-13,
        )


@every_family
def test_simulated_records_follow_the_cdf(case: Case, rng: np.random.Generator) -> None:
    theta = case.theta(rng, 1)
    x = case.family.simulate(rng, theta, 20_000)[0]
    assert x.shape == (20_000,)
    if case.family.integer:
        values, counts = np.unique(x, return_counts=True)
        p = np.exp(case.family.log_density(values[None, :], theta))[0]
        big = p * x.size > 10
        expected = np.append(p[big], 1 - p[big].sum()) * x.size
        observed = np.append(counts[big], x.size - counts[big].sum())
        keep = expected > 1e-6
        statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
        assert stats.chi2.sf(statistic, keep.sum() - 1) > FALSE_ALARM
    else:
        assert stats.kstest(x, lambda v: case.family.cdf(v, theta)[0]).pvalue > FALSE_ALARM


@conjugate
def test_conjugate_update_is_prior_times_likelihood(case: Case, rng: np.random.Generator) -> None:
    """log posterior - log prior - log likelihood is the same constant at every theta."""
    x = case.family.simulate(rng, case.theta(rng, 1), 9)
    theta = case.theta(rng, 50)
    statistic = np.stack([np.asarray(c, float).sum(-1) for c in case.family.statistic(x)], -1)
    posterior = case.family.update(case.prior, statistic, 9)
    likelihood = case.family.log_density(np.repeat(x, 50, axis=0), theta).sum(1)
    evidence = case.prior.log_density(theta) + likelihood - posterior.log_density(theta)
    np.testing.assert_allclose(evidence, evidence[0], rtol=1e-9, atol=1e-8)


@conjugate
def test_update_is_batched(case: Case, rng: np.random.Generator) -> None:
    x = case.family.simulate(rng, case.theta(rng, 3), 6)
    statistic = np.stack([np.asarray(c, float).sum(-1) for c in case.family.statistic(x)], -1)
    theta = case.theta(rng, 3)
    together = case.family.update(case.prior, statistic, 6).log_density(theta)
    apart = [
        case.family.update(case.prior, statistic[i : i + 1], 6).log_density(theta[i : i + 1])[0]
        for i in range(3)
    ]
    np.testing.assert_allclose(together, apart)
    assert case.family.update(case.prior, statistic, 6).draw(rng, 3).shape == theta.shape


@conjugate
def test_prior_draws_have_the_density_of_the_prior(case: Case, rng: np.random.Generator) -> None:
    """E over draws of a bump function equals its integral against the density (one or two
    parameters), or the mean is right.
    """
    draws = case.prior.draw(rng, 100_000)
    first = np.sort(draws[:, 0])
    if draws.shape[1] == 1:
        low, high = first[1000], first[-1000]
        grid = np.linspace(low, high, 4001)
        mass = integrate.simpson(np.exp(case.prior.log_density(grid[:, None])), x=grid)
        inside = ((draws[:, 0] >= low) & (draws[:, 0] <= high)).mean()
        assert abs(inside - mass) < 5 * np.sqrt(0.98 * 0.02 / 100_000)  # false alarm 6e-7
    else:
        # Importance identity: E[q(theta)/p(theta)] = 1 for any density q inside the support.
        kind = type(case.prior)
        flatter = (
            (np.asarray(case.prior.concentration) + 0.5,)
            if case.prior.kind == "dirichlet"
            else (0.6, 2.5, 7.0, 6.5)
        )
        other = kind(*flatter)
        ratio = np.exp(other.log_density(draws) - case.prior.log_density(draws))
        assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(ratio.size)


@pytest.mark.parametrize("shape", [0.01, 0.3])
def test_small_dirichlet_draws_do_not_underflow(shape: float, rng: np.random.Generator) -> None:
    draws = case = families.Categorical(3).prior([shape] * 3).draw(rng, 1000)  # type: ignore[misc]
    assert np.isfinite(case).all()
    np.testing.assert_allclose(draws.sum(1), 1)


def test_a_missing_part_is_named() -> None:
    class Bare(families.Family):
        kind = "bare"
        support = (0.0, 1.0)

        def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
            return (xp.log(x),)

    with pytest.raises(UnsupportedCombination, match="does not supply `natural`"):
        Bare().natural(np.ones((1, 1)))
    with pytest.raises(TypeError, match="exists already"):

        class Other(families.Family):
            kind = "exponential"
            support = (0.0, 1.0)

            def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
                return (x,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: families.Gamma(shape=0), "shape of the gamma family must be positive"),
        (lambda: families.Gamma(shape=float("nan")), "must be positive"),
        (lambda: families.Normal(mean=0, variance=1), "leave one out"),
        (lambda: families.Normal(variance=-1), "variance of the normal family must be positive"),
        (lambda: families.Normal(mean=float("inf")), "must be finite"),
        (lambda: families.Categorical(["a"]), "at least two"),
        (lambda: families.Categorical(["a", "a"]), "at least two different"),
        (lambda: families.Categorical(["a", 1]), "all text or all whole numbers"),
        (lambda: families.Categorical(["a", "b"], other="c"), "one of the categories"),
        (lambda: families.Categorical(1), "at least two"),
    ],
)
def test_impossible_families_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()
