"""Regressions from noisy moments by others' means: NumPyro's NUTS on the same model, as its expert
would write it, and the sampler of Bernstein & Sheldon (2019), in NumPy.

As a script (python bench/regression_peers.py FILE.npz) it is the cold start of NUTS: from the
process to a printed summary.
"""

import sys

import numpy as np
from scipy import stats

WARMUP, DRAWS, CHAINS = 1000, 1000, 4


def nuts(n, numbers, scale, shape, pairs):
    """run(key, y) -> {"beta": (chains, draws, p), "sigma": ...}, compiled on its first call: the
    columns stand as (covariates, outcome), the statistic as sums, then products.
    """
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    p = numbers + 1
    j, k = (jnp.array(one) for one in pairs)

    def model(y):
        mean = numpyro.sample("mean", dist.Uniform(-1, 1).expand([numbers]))
        part = numpyro.sample("part", dist.Uniform(0, 1).expand([numbers]))
        sd = part * jnp.sqrt(1 - mean**2)
        root = jnp.ones((1, 1))
        if numbers > 1:
            root = numpyro.sample("root", dist.LKJCholesky(numbers, 1.0))
        root = sd[:, None] * root
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([p]))
        variance = numpyro.sample("variance", dist.InverseGamma(1.0, 0.25))
        frame = jnp.zeros((p, p)).at[0, 0].set(1.0).at[1:, 0].set(mean).at[1:, 1:].set(root)
        free = numpyro.sample("free", dist.Normal(0, 1).expand([p]))
        off = jax.scipy.linalg.solve_triangular(frame.T, free, lower=False)
        fit = beta + jnp.sqrt(variance / n) * off
        squares = frame @ frame.T  # X'X / n
        cross = squares @ fit
        # chi-square of n - p degrees, nearly normal on the log scale
        rest = numpyro.sample("rest", dist.Gamma((n - p) / 2, n / 2))
        total = fit @ cross + variance * rest
        numpyro.factor("box", jnp.where(total <= 1, 0.0, -jnp.inf))
        whole = jnp.zeros((p, p)).at[:numbers, :numbers].set(squares[1:, 1:])
        whole = whole.at[:numbers, numbers].set(cross[1:]).at[numbers, numbers].set(total)
        expected = jnp.concatenate([mean, cross[:1], whole[j, k]])
        law = dist.Laplace if shape == "laplace" else dist.Normal
        numpyro.sample("y", law(n * expected, scale), obs=y)
        numpyro.deterministic("sigma", jnp.sqrt(variance))

    sampler = MCMC(
        NUTS(model, dense_mass=True, target_accept_prob=0.9),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )

    def run(key, y):
        sampler.run(key, y)
        samples = sampler.get_samples(group_by_chain=True)
        return {name: samples[name] for name in ("beta", "sigma")}

    return jax.jit(run)


def bernstein_sheldon(rng, n, numbers, scale, pairs, y, steps):
    """Draws of beta, (steps, p), by their Gibbs sampler with a prior of the covariates: sums of
    products of normal columns are taken for normal, by the central limit theorem; variances of the
    Laplace noise, the sums, and the parameters given them are drawn in turn. Moments of products
    are those of normals.
    """
    p, d = numbers + 1, numbers + 2  # of v = (1, covariates, outcome)
    # the statistic as pairs of v: sums are products with 1
    first = np.concatenate([np.zeros(p, dtype=int), np.asarray(pairs[0]) + 1])
    second = np.concatenate([np.arange(1, d), np.asarray(pairs[1]) + 1])
    s, beta, variance = y.copy(), np.zeros(p), 0.25
    mu, sigma = np.zeros(numbers), 0.3 * np.eye(numbers)
    out = np.empty((steps, p))

    def matrix(values):
        full = np.zeros((d, d))
        full[0, 0] = n
        full[first, second] = full[second, first] = values
        return full

    for step in range(steps):
        # moments of v v' under the current parameters
        lift = np.zeros((d, d - 1))  # v = centre + lift (covariates' deviations, error)
        lift[1:p, :numbers] = np.eye(numbers)
        lift[p, :numbers], lift[p, numbers] = beta[1:], 1.0
        inner = np.zeros((d - 1, d - 1))
        inner[:numbers, :numbers], inner[numbers, numbers] = sigma, variance
        c = lift @ inner @ lift.T
        m = np.concatenate([[1.0], mu, [beta[0] + beta[1:] @ mu]])
        a, b = first, second
        mean = n * (c[a, b] + m[a] * m[b])
        cov = c[np.ix_(a, a)] * c[np.ix_(b, b)] + c[np.ix_(a, b)] * c[np.ix_(b, a)]
        for one, other in ((a, b), (b, a)):
            for two, last in ((a, b), (b, a)):
                cov += np.outer(m[one], m[two]) * c[np.ix_(other, last)]
        cov *= n
        # variances of the noise, then the sums between model and release
        miss = np.maximum(np.abs(y - s), 1e-12)
        noise = 1 / rng.wald(1 / (scale * miss), 1 / scale**2)
        gain = np.linalg.solve(cov + np.diag(noise), cov).T
        centre, spread = mean + gain @ (y - mean), cov - gain @ cov
        values, vectors = np.linalg.eigh((spread + spread.T) / 2)
        half = vectors * np.sqrt(np.maximum(values, 0))
        for _ in range(20):
            s_new = centre + half @ rng.standard_normal(s.size)
            if np.linalg.eigvalsh(matrix(s_new))[0] > 0:
                s = s_new
                break
        full = matrix(s)
        if np.linalg.eigvalsh(full)[0] <= 0:  # no table has these sums; keep the parameters
            out[step] = beta
            continue
        xx, xy = full[:p, :p], full[:p, p]
        residual = full[p, p] - xy @ np.linalg.solve(xx, xy)
        precision = np.eye(p) + xx / variance
        covariance = np.linalg.inv(precision)
        beta = covariance @ (xy / variance) + np.linalg.cholesky(covariance) @ rng.standard_normal(
            p
        )
        away = beta - np.linalg.solve(xx, xy)
        rest = residual + away @ xx @ away
        variance = (0.25 + rest / 2) / rng.standard_gamma(1 + n / 2)
        own = full[0, 1:p] / n
        scatter = full[1:p, 1:p] - n * np.outer(own, own)
        sigma = np.atleast_2d(
            stats.invwishart(numbers + 1 + n, 0.5 * np.eye(numbers) + scatter).rvs(random_state=rng)
        )
        mu = own + np.linalg.cholesky(sigma / n) @ rng.standard_normal(numbers)
        out[step] = beta
    return out


if __name__ == "__main__":
    held = np.load(sys.argv[1])
    import jax

    run = nuts(
        float(held["n"]), int(held["numbers"]), float(held["scale"]), "laplace", held["pairs"]
    )
    for name, draws in run(jax.random.PRNGKey(0), held["y"]).items():
        print(name, np.asarray(draws).mean(axis=(0, 1)), np.asarray(draws).std(axis=(0, 1)))
