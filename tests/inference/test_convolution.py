"""A categorical's counts summed over by convolution: against every table, closed forms, and the
chain.
"""

import itertools

import numpy as np
import pytest
from scipy import special, stats

import noisewise
from chance import FALSE_ALARM
from noisewise import families, noise, priors
from noisewise.inference.methods.categorical import chain as chains
from noisewise.inference.methods.categorical import convolution
from noisewise.inference.methods.categorical.betas import Betas
from noisewise.inference.methods.categorical.factors import Factors
from noisewise.mechanism.noise.laplace import LAPLACE

Q = np.array([0.05, 0.5, 0.95])
TABLES = 40


def enumerated(y, law, a, n, n_prior=None):  # type: ignore[no-untyped-def]
    """Mean, sd, and distribution function of each probability, from all tables of counts."""
    k = len(a)
    if n is None:
        tables = np.stack(
            np.meshgrid(*[np.arange(TABLES + 1.0)] * k, indexing="ij"), axis=-1
        ).reshape(-1, k)
    else:
        some = (t for t in itertools.product(range(n + 1), repeat=k - 1) if sum(t) <= n)
        tables = np.array([(*t, n - sum(t)) for t in some], dtype=float)
    total, size = a.sum(), tables.sum(axis=1)
    step = law.steps[0] if law.discrete else 1.0
    lattice = step * np.floor(tables / step + 0.5) if step > 1 else tables
    log_weight = (special.gammaln(a + tables) - special.gammaln(tables + 1)).sum(axis=1)
    log_weight += law.broadcast(k).log_density(y - lattice).sum(axis=1)
    if n is None:
        log_weight += special.gammaln(size + 1) - special.gammaln(total + size)
        if n_prior is not None:
            log_weight += n_prior.log_density(np.maximum(size, 1e-300)[:, None])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    share = (a + tables) / (total + size)[:, None]
    mean = weight @ share
    variance = (
        weight @ (share * (1 - share) / (total + size + 1)[:, None]) + weight @ (share - mean) ** 2
    )

    def cdf(j, x):  # type: ignore[no-untyped-def]
        return weight @ special.betainc(a[j] + tables[:, j], total - a[j] + size - tables[:, j], x)

    return mean, np.sqrt(variance), cdf


def inferred(y, law, a, n, n_prior=None, **settings):  # type: ignore[no-untyped-def]
    known = {} if n is None else {"n": n}
    release = noisewise.observe(
        family=families.Categorical(len(a)), statistic=y, noise=law, **known
    )
    return noisewise.infer(release, priors.Dirichlet(a), n_prior=n_prior, **settings)


LAWS = [
    noise.Laplace(1.5),
    noise.DiscreteLaplace(3.0, 1.0),
    noise.Gaussian(2.0),
    noise.DiscreteGaussian(1.0, 1.0),
    noise.DiscreteLaplace(3.0, 4.0),
    noise.DiscreteGaussian(4.0, 3.0),
]
CASES = [
    ((7.0, 5.0), (1.0, 1.0), 12),
    ((7.0, 1.0, -2.0), (0.001, 0.02, 50.0), 12),
    ((30.0, -9.0, 2.0), (0.3, 0.3, 0.3), 30),
    ((60.0, 50.0, 70.0), (0.5, 2.0, 0.001), 20),  # impossible: they sum to nine times n
    ((-40.0, -30.0, -60.0), (0.01, 3.0, 1.0), 9),
    ((3.0, 0.0, 1.0, 5.0), (0.1, 4.0, 0.7, 1.0), 10),
    ((5.0, 2.0, 1.0), (1.0, 2.0, 3.0), 0),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize(("y", "a", "n"), CASES)
def test_known_n_against_every_table(y, a, n, law) -> None:
    """Means and sds to rounding; the distribution function at the reported quantiles to what
    merging Betas costs.
    """
    y = np.round(np.array(y) / law.steps[0]) * law.steps[0] if law.discrete else np.array(y) + 0.3
    mean, sd, cdf = enumerated(y, law, np.array(a), n)
    posterior = inferred(y, law, a, n)
    assert posterior.certificate.rhat is None  # no chain
    assert posterior.certificate.numerical_error < 1e-6
    assert np.abs(posterior.mean("probabilities") - mean) / sd == pytest.approx(0, abs=1e-6)
    assert posterior.sd("probabilities") == pytest.approx(sd, rel=1e-6)
    check_quantiles(posterior, cdf)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize(
    ("y", "a"),
    [
        ((6.0, -2.0, 3.0), (0.3, 1.0, 5.0)),
        ((1.0, 0.0, 9.0), (0.01, 0.05, 0.3)),
        ((4.0, 9.0), (2.0, 20.0)),
    ],
)
@pytest.mark.parametrize("n_prior", [None, priors.Gamma(9, 1.0)])
def test_unknown_n_against_every_table(y, a, law, n_prior) -> None:
    """Tables of up to 40 in each category, and a prior of n or none. Wider laws would need more:
    their prior is proper.
    """
    if n_prior is None and law.scales[0] > 2:
        n_prior = priors.Gamma(3, 0.5)
    y = np.round(np.array(y) / law.steps[0]) * law.steps[0] if law.discrete else np.array(y) + 0.3
    mean, sd, cdf = enumerated(y, law, np.array(a), None, n_prior)
    posterior = inferred(y, law, a, None, n_prior)
    assert posterior.certificate.rhat is None
    assert np.abs(posterior.mean("probabilities") - mean) / sd == pytest.approx(0, abs=1e-4)
    assert posterior.sd("probabilities") == pytest.approx(sd, rel=1e-4)
    check_quantiles(posterior, cdf)


def check_quantiles(posterior, cdf) -> None:  # type: ignore[no-untyped-def]
    found = posterior.quantile("probabilities", Q)
    for i, j in itertools.product(range(Q.size), range(found.shape[1])):
        if 1e-290 < found[i, j] < 1 - 1e-12:  # beyond, a float cannot tell
            assert cdf(j, found[i, j]) == pytest.approx(Q[i], abs=0.004), (i, j)


def test_medians_of_two_categories_sum_to_one() -> None:
    """theta_2 = 1 - theta_1, so their medians sum to 1, also where n is not public."""
    for law in (noise.Laplace(3.0), noise.Gaussian(5.0)):
        median = inferred((9.0, 3.0), law, (0.5, 2.0), None).quantile("probabilities", 0.5)
        assert median.sum() == pytest.approx(1, abs=1e-3)


def test_far_noise_leaves_the_prior() -> None:
    """With noise of scale 10^150 the posterior is the prior: Beta(2, 3), and Dirichlet margins of
    five.
    """
    for n in (30, 1000):
        q = inferred((5.0, -7.0), noise.Laplace(1e150), (2.0, 3.0), n).quantile("probabilities", Q)
        assert q[:, 0] == pytest.approx(stats.beta.ppf(Q, 2, 3), abs=2e-3)
    posterior = inferred((5.0,) * 5, noise.Gaussian(1e150), (0.4,) * 5, 2**62)
    assert posterior.mean("probabilities") == pytest.approx(0.2, abs=1e-3)
    assert posterior.sd("probabilities") == pytest.approx(stats.beta.std(0.4, 1.6), rel=0.01)


def test_no_noise_to_speak_of_is_conjugate() -> None:
    y, a = np.array([30.0, 12.0, 0.0]), np.array([0.5, 2.0, 0.1])
    q = inferred(y, noise.Laplace(0.01), a, 42).quantile("probabilities", Q)
    for j in range(3):
        assert q[:, j] == pytest.approx(
            stats.beta.ppf(Q, a[j] + y[j], (a + y).sum() - a[j] - y[j]), rel=1e-3
        )


@pytest.mark.parametrize(
    ("k", "n", "scale", "a"),
    [
        (10, 1000, 4.0, 1.0),
        (10, 10**5, 20.0, 0.1),
        (10, 10**6, 1000.0, 1.0),
        (100, 10**5, 10.0, 0.5),
        (1000, 10**6, 20.0, 1.0),
    ],
)
def test_draws_agree_with_quantiles(rng, k, n, scale, a) -> None:
    """Kolmogorov and Smirnov at seven quantiles; all categories share the false-alarm rate. 0.004
    is for merging Betas.
    """
    s = rng.multinomial(n, rng.dirichlet(np.full(k, a)))
    posterior = inferred(
        s + rng.laplace(0, scale, k), noise.Laplace(scale), (a,) * k, n, draws=2000, seed=3
    )
    draws = posterior.draws["probabilities"]
    levels = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
    share = (draws[None] <= posterior.quantile("probabilities", levels)[:, None, :]).mean(axis=1)
    critical = stats.kstwo.ppf(1 - FALSE_ALARM / k, len(draws))
    assert np.abs(share - levels[:, None]).max() < critical + 0.004
    z = (
        (draws.mean(axis=0) - posterior.mean("probabilities"))
        / posterior.sd("probabilities")
        * np.sqrt(len(draws))
    )
    # the mean's law is not quite normal at small a
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / k / 2) + 0.5
    assert draws.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(("k", "scale"), [(3, 400.0), (10, 60.0)])
def test_bins_agree_with_counts_one_by_one(monkeypatch, rng, k, scale, public) -> None:
    """The same release summed one by one, and in bins on a lattice."""
    a = np.linspace(0.6, 3, k)
    y = rng.multinomial(5000, rng.dirichlet(a)) + rng.laplace(0, scale, k)
    factors = Factors(y, np.full(k, scale), np.ones(k), a, LAPLACE, 5000.0 if public else np.inf)
    found = []
    for largest, longest in ((10**6, 1 << 17), (64, 1 << 12)):
        monkeypatch.setattr(convolution, "ONE_BY_ONE", largest)
        monkeypatch.setattr(convolution, "LONGEST", longest)
        made = convolution.convolve(factors, 5000.0 if public else None, None)
        assert made.exact == (largest > 64)
        found.append(made.betas()[0])
    (mean, sd), (other, other_sd) = found[0].moments, found[1].moments
    assert np.abs(mean - other) / sd == pytest.approx(0, abs=0.003)
    assert other_sd == pytest.approx(sd, rel=0.003)
    assert np.abs(found[0].quantiles(Q) - found[1].quantiles(Q)) / sd == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("k", [10, pytest.param(40, marks=pytest.mark.thorough)])
def test_convolution_agrees_with_the_chain(monkeypatch, rng, k) -> None:
    """A long chain: means within 5 of its Monte Carlo errors (false alarms below 10^-6 each).

    It is worth at least 40 000 draws, so an sd of a law with kurtosis 6 errs by 0.6 %: within 5 of
    that.
    """
    monkeypatch.setattr(chains, "ERROR", 0.004)
    monkeypatch.setattr(chains, "MOST_WORK", 1 << 28)
    a, law = np.full(k, 0.8), noise.Laplace(8.0)
    y = rng.multinomial(20_000, rng.dirichlet(a)) + rng.laplace(0, 8.0, k)
    posterior = inferred(y, law, tuple(a), 20_000)
    chain = chains.sample([(y, 20_000.0, law.broadcast(k))], a, rng)
    mean, sd = chains.betas(chain.counts, a).moments
    assert chain.ess > 40_000
    assert (np.abs(mean - posterior.mean("probabilities")) / sd).max() < 5 * chain.error
    assert sd == pytest.approx(posterior.sd("probabilities"), rel=0.03)


@pytest.mark.parametrize(
    "law",
    [
        noise.Laplace(16.0),
        noise.Gaussian(16.0),
        noise.Laplace(1e12),
        pytest.param(noise.Gaussian(1e150), marks=pytest.mark.thorough),
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [1000, 10**12, pytest.param(2**62, marks=pytest.mark.thorough), None])
@pytest.mark.parametrize(
    "y", [(1e6,) * 4, (-1e6,) * 4, (4e17, 1e15, -1e12, 0.0), (3e11, 7e11, 1e9, 2.0)]
)
def test_absurd_releases_have_sane_posteriors(y, n, law) -> None:
    for a in (1.0, 1e6):
        posterior = inferred(y, law, (a,) * 4, n, draws=50, seed=1)
        mean, q = posterior.mean("probabilities"), posterior.quantile("probabilities", Q)
        assert mean.sum() == pytest.approx(1, abs=2e-3)
        assert np.isfinite(q).all()
        assert (np.diff(q, axis=0) >= 0).all()
        assert ((q >= 0) & (q <= 1)).all()
        assert posterior.draws["probabilities"].sum(axis=1) == pytest.approx(1)


def test_a_sum_that_the_transform_cannot_reach_is_left_to_the_chain() -> None:
    """Noise far below the step, and counts that contradict n: the sum's law has a gap of e^-100
    there.
    """
    posterior = inferred((7.0, 13.0), noise.Gaussian(0.02), (1.0, 1.0), 15)
    mean, sd, _ = enumerated(np.array([7.0, 13.0]), noise.Gaussian(0.02), np.array([1.0, 1.0]), 15)
    assert posterior.mean("probabilities") == pytest.approx(mean, abs=0.05 * sd.max())


def test_coarse_steps_in_the_chain(rng) -> None:
    """Noise on a lattice of step 4: the chain over counts that were rounded to it, against every
    table.
    """
    y, a, law = (
        np.array([8.0, 4.0, -4.0]),
        np.array([0.7, 2.0, 1.0]),
        noise.DiscreteLaplace(3.0, 4.0),
    )
    for n in (11, None):
        n_prior = None if n else priors.Gamma(3, 0.3)
        mean, sd, _ = enumerated(y, law, a, n, n_prior)
        chain = chains.sample(
            [(y, None if n is None else float(n), law.broadcast(3))], a, rng, n_prior=n_prior
        )
        found, found_sd = chains.betas(chain.counts, a).moments
        assert np.abs(found - mean).max() < 5 * chains.ERROR * sd.max()
        assert found_sd == pytest.approx(sd, rel=0.03)


@pytest.mark.parametrize(("first", "second"), [(1000.0, 9000.0), (3e4, 1500.0), (2e3, 1e9)])
def test_a_beta_of_many_counts_has_its_skewness(first, second) -> None:
    """Within 10^-4 of SciPy's; a normal without the skewness would be off by 0.002 and more."""
    law = stats.beta(first, second)
    one = Betas.of(np.ones((1, 1)), np.array([[first]]), np.array([[second]]))
    x = law.ppf(np.linspace(0.001, 0.999, 201))
    np.testing.assert_allclose(one.cdf(x[:, None])[:, 0], law.cdf(x), rtol=0, atol=1e-4)
    q = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(one.quantiles(q)[:, 0], law.ppf(q), rtol=0, atol=2e-3 * law.std())
