"""`likelihood` against enumeration and quadrature, its table for JAX, and models that use it."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

import noisewise
from inference.test_pooling import bernoulli, enumerated
from noisewise import Bounds, NoisyCount, families, noise
from noisewise.errors import UnsupportedCombination

CLOSE = 1e-4


def near_peak(value: np.ndarray, reach: float = 14.0) -> np.ndarray:
    return np.asarray(value) > np.max(value) - reach


def both(likelihood: noisewise.Likelihood, theta: np.ndarray) -> list[np.ndarray]:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        table = np.asarray(likelihood.jax(jax.numpy.asarray(theta)))
    return [likelihood.log(theta), table]


@pytest.mark.parametrize(("n", "y", "scale"), [(30, 8.3, 3.0), (1000, 310.2, 0.5), (5, -2.0, 4.0)])
def test_probability_against_enumeration(n: int, y: float, scale: float) -> None:
    theta = np.linspace(0.001, 0.999, 201)
    known = enumerated(n, y, scale, special.logit(theta))
    for value in both(noisewise.likelihood(bernoulli(n, y, scale)), theta):
        assert np.abs(value - known)[near_peak(known)].max() < CLOSE
        assert np.isfinite(value).all()


def test_an_unknown_number_of_records_against_enumeration() -> None:
    theta, y0, y, scale = np.linspace(0.01, 0.99, 41), 30.4, 8.3, 3.0
    release = noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(y0, noise.Laplace(scale)),
        statistic=[y],
        noise=noise.Laplace(scale),
    )
    terms = [
        enumerated(n, y, scale, special.logit(theta)) - abs(y0 - n) / scale - np.log(2 * scale)
        for n in range(250)
    ]
    known = special.logsumexp(terms, axis=0)
    for value in both(noisewise.likelihood(release), theta):
        assert np.abs(value - known)[near_peak(known)].max() < CLOSE


def test_rate_against_quadrature() -> None:
    """No record reaches the bound, so that the sum is a gamma."""
    rate, n, y, scale = np.geomspace(0.9, 15, 40), 12, 5.0, 1.5
    release = noisewise.observe(
        family=families.Exponential(), n=n, statistic=[y], noise=noise.Laplace(scale),
        bounds=Bounds(0, 60, outside="redact"),
    )  # fmt: skip
    s = np.linspace(0, 60, 200_001)[1:]
    known = np.array(
        [
            np.log(
                np.trapezoid(stats.gamma.pdf(s, n, scale=1 / r) * np.exp(-np.abs(y - s) / scale), s)
                / (2 * scale)
            )
            for r in rate
        ]
    )
    for value in both(noisewise.likelihood(release), rate):
        assert np.abs(value - known)[near_peak(known)].max() < CLOSE


def two_parameters() -> noisewise.Release:
    return noisewise.observe(
        family=families.Normal(), n=40, statistic=[40.0, 900.0],
        noise=noise.Gaussian([12.0, 100.0]), bounds=Bounds(-50, 50, outside="clamp"),
    )  # fmt: skip


def test_two_parameters_against_quadrature_with_gradients() -> None:
    """No record reaches a bound: sum x is normal and, independently, the sum of squares about the
    mean a chi-square.
    """
    n, y, sd = 40, np.array([40.0, 900.0]), np.array([12.0, 100.0])
    rng = np.random.default_rng(5)
    theta = np.column_stack([rng.uniform(-4, 6, 40), np.exp(rng.uniform(1.8, 4.0, 40))])
    z = np.linspace(-9, 9, 451)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    chi = stats.chi2.isf(special.ndtr(-z), n - 1)
    known = np.empty(len(theta))
    for row, (mean, variance) in enumerate(theta):
        s1 = n * mean + np.sqrt(n * variance) * z
        s2 = s1[:, None] ** 2 / n + variance * chi
        noises = stats.norm.pdf(y[0] - s1, scale=sd[0])[:, None] * stats.norm.pdf(
            y[1] - s2, scale=sd[1]
        )
        known[row] = np.log(weight @ noises @ weight)
    likelihood = noisewise.likelihood(two_parameters())
    exact, table = both(likelihood, theta)
    assert np.abs(exact - known)[near_peak(known)].max() < CLOSE
    assert np.abs(table - known)[near_peak(known, 9.0)].max() < CLOSE
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        at = jax.numpy.asarray(theta[near_peak(known, 8.0)][:8])
        slope = np.asarray(jax.vmap(jax.grad(likelihood.jax))(at))
        far = jax.numpy.array([[1e4, 1e-6], [-3e3, 1e9], [0.0, 1e-12]])
        assert np.isfinite(likelihood.jax(far)).all()
        assert np.isfinite(jax.vmap(jax.grad(likelihood.jax))(far)).all()
    step = np.array([1e-3, 1e-3])
    for j in (0, 1):
        move = np.eye(2)[j] * step[j]
        difference = likelihood.log(np.asarray(at) + move) - likelihood.log(np.asarray(at) - move)
        assert slope[:, j] == pytest.approx(difference / (2 * step[j]), abs=2e-3, rel=2e-3)
    assert np.isfinite(likelihood.log(np.asarray(far))).all()


def test_gradient_of_one_parameter_and_shapes() -> None:
    jax = pytest.importorskip("jax")
    likelihood = noisewise.likelihood(bernoulli(60, 21.0, 2.0))
    with jax.enable_x64(True):
        theta = jax.numpy.linspace(0.2, 0.5, 7)
        slope = jax.vmap(jax.grad(likelihood.jax))(theta)
        assert likelihood.jax(theta[:, None]).shape == (7,)
        assert likelihood.jax(theta.reshape(7, 1, 1)).shape == (7, 1)
        assert likelihood.jax(0.3).shape == ()
        edge = jax.numpy.array([1e-290, 1e-30, 1 - 1e-12])
        assert np.isfinite(likelihood.jax(edge)).all()
        bend = jax.vmap(jax.grad(jax.grad(likelihood.jax)))(theta)
    at, h = np.asarray(theta), 1e-5
    known = (likelihood.log(at + h) - likelihood.log(at - h)) / (2 * h)
    assert np.asarray(slope) == pytest.approx(known, abs=1e-2, rel=1e-3)
    assert np.isfinite(bend).all()
    assert likelihood.log(0.3) == pytest.approx(likelihood.log([0.3])[0])
    assert np.isfinite(likelihood.log([1e-290, 1e-30, 1 - 1e-15])).all()
    assert likelihood.log([-0.1, 1.2]).tolist() == [-np.inf, -np.inf]


def test_refusals() -> None:
    counts = noisewise.observe(
        family=families.Categorical(3), n=9, statistic=[1.0, 2.0, 3.0], noise=noise.Laplace(1.0)
    )
    with pytest.raises(UnsupportedCombination, match="sums"):
        noisewise.likelihood(counts)
    with pytest.raises(ValueError, match="columns"):
        noisewise.likelihood(two_parameters()).log([1.0, 2.0, 3.0])


def test_jax_is_loaded_only_where_it_is_used() -> None:
    code = (
        "import sys, noisewise; from noisewise import families, noise\n"
        "r = noisewise.observe(family=families.Bernoulli(), n=9, statistic=[3.0],"
        " noise=noise.Laplace(1.0))\n"
        "noisewise.likelihood(r).log([0.2, 0.4]); noisewise.pool([r])\n"
        "sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SAID = [(50, 0.7), (14, 12.9), (18, 2.9), (21, 9.7), (50, 32.6), (39, 15.3)]


def hierarchy() -> tuple[list[noisewise.Likelihood], noisewise.Pooled]:
    releases = [bernoulli(n, y) for n, y in SAID]
    return [noisewise.likelihood(one) for one in releases], noisewise.pool(releases)


def agrees(theta: np.ndarray, pooled: noisewise.Pooled, worth: float) -> None:
    """Draws (draws, groups) with at least `worth` effective ones have the pooled means: six
    Monte Carlo errors, 2e-9 each.
    """
    for g, one in enumerate(pooled.groups):
        sd = one.sd("probability")
        assert abs(theta[:, g].mean() - one.mean("probability")) < 6 * sd / np.sqrt(worth)
        assert abs(theta[:, g].std() / sd - 1) < 6 / np.sqrt(worth)


@pytest.mark.filterwarnings("ignore")
def test_a_numpyro_model_of_groups_agrees_with_pool() -> None:
    numpyro = pytest.importorskip("numpyro")
    import jax
    from numpyro import distributions as dist

    likelihoods, pooled = hierarchy()

    def model() -> None:
        v = numpyro.sample("v", dist.Logistic(0.0, 1.0))
        w = numpyro.sample("w", dist.Logistic(0.0, 1.0))
        m, k = jax.nn.sigmoid(v), jax.numpy.exp(w)
        with numpyro.plate("groups", len(likelihoods)):
            theta = numpyro.sample("theta", dist.Beta(m * k, (1 - m) * k))
        for g, one in enumerate(likelihoods):
            numpyro.factor(f"release {g}", one.jax(theta[g]))

    with jax.enable_x64(True):
        kernel = numpyro.infer.NUTS(model, target_accept_prob=0.95)
        chain = numpyro.infer.MCMC(kernel, num_warmup=300, num_samples=1200, progress_bar=False)
        chain.run(jax.random.PRNGKey(0))
        theta = np.asarray(chain.get_samples()["theta"])
        summary = numpyro.diagnostics.summary({"theta": theta[None]}, group_by_chain=True)
    worth = float(np.min(summary["theta"]["n_eff"]))
    assert worth > 200
    agrees(theta, pooled, worth)


@pytest.mark.filterwarnings("ignore")
def test_a_pymc_model_of_groups_agrees_with_pool() -> None:
    """As docs/likelihood.md has it; runs where PyMC is installed."""
    pymc = pytest.importorskip("pymc")
    import jax
    import pytensor

    jax.config.update("jax_enable_x64", True)
    likelihoods, pooled = hierarchy()

    @pytensor.wrap_jax
    def log_likelihood(theta):  # type: ignore[no-untyped-def]
        return sum(one.jax(theta[g]) for g, one in enumerate(likelihoods))

    with pymc.Model():
        v, w = pymc.Logistic("v", 0, 1), pymc.Logistic("w", 0, 1)
        m, k = pymc.math.invlogit(v), pymc.math.exp(w)
        theta = pymc.Beta("theta", m * k, (1 - m) * k, shape=len(likelihoods))
        pymc.Potential("releases", log_likelihood(theta))
        found = pymc.sample(
            1500, tune=700, chains=2, cores=1, random_seed=3, target_accept=0.95, progressbar=False
        )
    draws = found.posterior["theta"].values
    worth = float(pymc.ess(found, var_names=["theta"])["theta"].min())
    assert worth > 200
    agrees(draws.reshape(-1, len(likelihoods)), pooled, worth)
