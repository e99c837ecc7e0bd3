"""How many records groups have, where that is not public: the population of their numbers against
sums over whole numbers, and what it does for the population that is asked for.
"""

import numpy as np
import pytest
from scipy import optimize, special, stats

import noisewise
from noisewise import NoisyCount, families, noise, pool, priors
from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.pooling.sizes import Sizes, log_evidence, sizes_of


def released(n: int, successes: int, scale: float, rng: np.random.Generator) -> Release:
    y, count = rng.laplace([successes, n], scale)
    return noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(float(count), noise.Laplace(scale)),
        statistic=[float(y)],
        noise=noise.Laplace(scale),
    )


@pytest.mark.parametrize("shape", [0.05, 0.7, 3.0, 400.0])
@pytest.mark.parametrize("mean", [0.3, 12.0, 5000.0, 1e8])
def test_numbers_are_poisson_of_a_gamma_rate(mean: float, shape: float) -> None:
    sizes = Sizes(mean, shape)
    n = np.unique(np.round(np.geomspace(1, 10 * mean + 100, 200)))
    known = stats.nbinom.logpmf(n, shape, shape / (shape + mean))
    near = known > -200  # what SciPy says of others is rounding
    assert np.allclose(sizes.log_density(n[:, None])[near], known[near], atol=1e-3)
    drawn = sizes.draw(np.random.default_rng(1), 20_000)[:, 0]
    assert abs(drawn.mean() - mean) < 5 * sizes.sd / np.sqrt(20_000)


@pytest.mark.parametrize("kind", [noise.Laplace, noise.Gaussian])
@pytest.mark.parametrize("scale", [0.4, 4.0, 60.0])
@pytest.mark.parametrize("shape", [0.3, 2.0, 50.0])
def test_how_probable_noisy_counts_are(shape: float, scale: float, kind: type) -> None:
    """Against the sum over every number of records."""
    mean, value = 12.0, np.array([-20.0, 0.2, 3.0, 14.4, 40.0])
    found = log_evidence(Sizes(mean, shape), value, np.full(5, scale), kind)
    n = np.arange(4000)
    weight = stats.nbinom.pmf(n, shape, shape / (shape + mean))
    law = stats.laplace if kind is noise.Laplace else stats.norm
    wanted = special.logsumexp(law.logpdf(value[:, None] - n, scale=scale), b=weight, axis=1)
    wanted -= law.logpdf(0, scale=scale)
    assert np.abs(found - wanted).max() < 0.01


def test_the_likeliest_population_is_found(rng: np.random.Generator) -> None:
    n = rng.negative_binomial(2.0, 2.0 / 42.0, 400)  # of mean 40
    releases = [released(int(one), 0, 8.0, rng) for one in n]
    sizes = sizes_of(releases)
    assert sizes is not None
    assert abs(sizes.mean / 40 - 1) < 0.2
    assert 1.3 < sizes.shape < 3.2
    counts = np.array([one.count.value for one in releases])  # type: ignore[union-attr]
    every = np.arange(600)
    heights = stats.laplace.pdf(counts[:, None] - every, scale=8.0)

    def badness(at: np.ndarray) -> float:
        mean, shape = np.exp(at)
        known = heights @ stats.nbinom.pmf(every, shape, shape / (shape + mean))
        return -float(np.log(known).sum() + np.log(shape) - 2 * np.log1p(shape))

    best = np.exp(optimize.minimize(badness, [3.0, 0.0], method="Nelder-Mead").x)
    assert np.allclose([sizes.mean, sizes.shape], best, rtol=0.05)


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [([5] * 160, 4.0), ([0] * 300 + [30] * 20, 4.0), ([1, 2, 3, 4, 100] * 30, 5.0)],
    ids=["small", "mostly empty", "unlike"],
)
def test_numbers_that_are_not_public_do_not_move_the_population(
    sizes: list[int], scale: float, rng: np.random.Generator
) -> None:
    """Its 99.9 % interval holds the mean, 0.5; with every number equally likely it lay far below,
    since a count that is mostly noise then says that there are a few more records than there are.
    """
    releases = [released(n, int(rng.binomial(n, rng.beta(6, 6))), scale, rng) for n in sizes]
    pooled = pool(releases, seed=1)
    low, high = pooled.population.interval("mean", 0.999)
    assert low < 0.5 < high
    assert "not public" in pooled.certificate.assumptions[-1]


def test_all_groups_may_be_empty(rng: np.random.Generator) -> None:
    pooled = pool([released(0, 0, 3.0, rng) for _ in range(30)], seed=1)
    low, high = pooled.population.interval("mean", 0.9)
    assert low < 0.25
    assert high > 0.6
    assert all(np.isfinite(one.mean("probability")) for one in pooled.groups)


def test_a_prior_of_the_numbers_may_be_given(rng: np.random.Generator) -> None:
    releases = [released(30, 12, 4.0, rng) for _ in range(20)]
    text = pool(releases, n_prior="gamma(shape=90, rate=3)", seed=1)
    given = pool(releases, n_prior=priors.Gamma(90, 3), seed=1)
    assert text.population.mean("mean") == given.population.mean("mean")
    assert "not public" not in " ".join(given.certificate.assumptions)
    apart = pool(releases, n_prior=priors.Gamma(180, 3), seed=1)  # twice as many records
    assert apart.population.mean("mean") < 0.8 * given.population.mean("mean")
    assert sizes_of(releases[:2]) is None  # two tell of no population
    public = noisewise.observe(
        family=families.Bernoulli(), n=9, statistic=[2.0], noise=noise.Laplace(1.0)
    )
    assert sizes_of([public] * 5) is None
    with pytest.raises(UnsupportedCombination, match="public"):
        pool([public, public], n_prior=priors.Gamma(2, 2))
