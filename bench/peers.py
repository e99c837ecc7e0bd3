"""The best general alternative, used well: NumPyro's NUTS in 64 bits, four vectorised chains,
compiled once.

Each model integrates the true statistic out where there is one Laplace statistic, and keeps it as a
latent variable otherwise, under the same normal approximation as `collapsed`. Run as a script
(python bench/peers.py NAME) it is the cold start: from the process to a printed summary.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, ndtr
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)
WARMUP = DRAWS = 1000
CHAINS = 4


def normal_laplace(z, v, b):
    """log density of N(0, v) + Laplace(b)."""
    sd = jnp.sqrt(v)
    up = -z / b + log_ndtr((z - v / b) / sd)
    down = z / b + log_ndtr((-z - v / b) / sd)
    return v / (2 * b * b) - jnp.log(2 * b) + jnp.logaddexp(up, down)


def bernoulli(y):  # n = 1000, Laplace(10), Beta(10, 10)
    p = numpyro.sample("p", dist.Beta(10.0, 10.0))
    numpyro.factor("y", normal_laplace(y[0] - 1000 * p, 1000 * p * (1 - p), 10.0))


def bernoulli_centred(y):
    p = numpyro.sample("p", dist.Beta(10.0, 10.0))
    s = numpyro.sample("s", dist.Normal(1000 * p, jnp.sqrt(1000 * p * (1 - p))))
    numpyro.sample("y", dist.Laplace(s, 10.0), obs=y[0])


def exponential(y):  # n = 100, redact to [0.01, 1.5], Laplace(1.5), Gamma(8, 2)
    r = numpyro.sample("r", dist.Gamma(8.0, 2.0))
    a, b = 0.01, 1.5
    ea, eb = jnp.exp(-r * a), jnp.exp(-r * b)
    first = (a + 1 / r) * ea - (b + 1 / r) * eb
    second = (a * a + 2 * a / r + 2 / r**2) * ea - (b * b + 2 * b / r + 2 / r**2) * eb
    numpyro.factor("y", normal_laplace(y[0] - 100 * first, 100 * (second - first**2), 1.5))


def normal(y):  # n = 100, clamp to [-4, 4], Laplace(3), Laplace(6), NormalInverseGamma(0, 2, 4, 3)
    v = numpyro.sample("v", dist.InverseGamma(4.0, 3.0))
    m = numpyro.sample("m", dist.Normal(0.0, jnp.sqrt(v / 2)))
    sd = jnp.sqrt(v)
    a, b = (-4 - m) / sd, (4 - m) / sd
    phi = lambda t: jnp.exp(-t * t / 2) / jnp.sqrt(2 * jnp.pi)  # noqa: E731
    below, above = ndtr(a), ndtr(-b)
    z = [1 - below - above, phi(a) - phi(b)]
    for k in (2, 3, 4):  # moments of the standard normal between a and b
        z.append((k - 1) * z[k - 2] + a ** (k - 1) * phi(a) - b ** (k - 1) * phi(b))
    x1 = m * z[0] + sd * z[1]
    x2 = m**2 * z[0] + 2 * m * sd * z[1] + v * z[2]
    x3 = m**3 * z[0] + 3 * m**2 * sd * z[1] + 3 * m * v * z[2] + sd**3 * z[3]
    x4 = (
        m**4 * z[0]
        + 4 * m**3 * sd * z[1]
        + 6 * m**2 * v * z[2]
        + 4 * m * sd**3 * z[3]
        + v**2 * z[4]
    )
    tails = below + above
    e1, e2 = x1 + 4 * (above - below), x2 + 16 * tails
    e3, e4 = x3 + 64 * (above - below), x4 + 256 * tails
    cov = 100 * jnp.array([[e2 - e1**2, e3 - e1 * e2], [e3 - e1 * e2, e4 - e2**2]])
    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([2]))
    s = 100 * jnp.stack([e1, e2]) + jnp.linalg.cholesky(cov) @ raw
    numpyro.sample("y", dist.Laplace(s, jnp.array([3.0, 6.0])), obs=y)


def categorical(y):  # n = 10^5, K = 100, Laplace(4), Dirichlet(1)
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(100)))
    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([100]))
    root = jnp.sqrt(p)
    s = 1e5 * p + jnp.sqrt(1e5) * (root * raw - p * (root * raw).sum())
    numpyro.sample("y", dist.Laplace(s, 4.0), obs=y)


MODELS = {f.__name__: f for f in (bernoulli, bernoulli_centred, exponential, normal, categorical)}
PARAMETERS = {
    "bernoulli": "p",
    "bernoulli_centred": "p",
    "exponential": "r",
    "normal": "mv",
    "categorical": "p",
}


def compiled(name):
    """run(key, y) -> {parameter: (chains, draws, ...)}, compiled on its first call."""
    sampler = MCMC(
        NUTS(MODELS[name]),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )

    def run(key, y):
        sampler.run(key, y)
        samples = sampler.get_samples(group_by_chain=True)
        return {parameter: samples[parameter] for parameter in PARAMETERS[name]}

    return jax.jit(run)


if __name__ == "__main__":
    start = time.perf_counter()
    y = jnp.array([float(value) for value in sys.argv[2].split(",")])
    for parameter, draws in compiled(sys.argv[1])(jax.random.PRNGKey(0), y).items():
        print(
            parameter,
            draws.mean(axis=(0, 1)),
            draws.std(axis=(0, 1)),
            jnp.quantile(draws, jnp.array([0.05, 0.5, 0.95])),
        )
