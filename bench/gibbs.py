"""Gibbs trials as one batch against the paper's scheme run one trial at a time, on one core: trials
a second, and their ratio.

The yardstick is Algorithm 1 (binomial, multinomial) and Algorithms 2 and 3 (exponential) written
iteration by iteration with NumPy and SciPy as the paper gives them: NormProduct by matrix inverses,
moments of a truncated record by automatic differentiation in the paper, by SciPy's quadrature here.

Run: python bench/gibbs.py
"""

import time

import numpy as np
from scipy import integrate
from threadpoolctl import threadpool_limits

from noisewise import Bounds, families, priors
from noisewise.study.trials import Setting, simulate, uniforms

BURN_IN, KEPT = 2000, 5000
TRIALS = 2000


def norm_product(mean1, covariance1, mean2, covariance2):
    precision = np.linalg.inv(covariance1) + np.linalg.inv(covariance2)
    covariance = np.linalg.inv(precision)
    return covariance @ (
        np.linalg.inv(covariance1) @ mean1 + np.linalg.inv(covariance2) @ mean2
    ), covariance


def new_variance(rng, y, s, scale):
    return 1 / rng.wald(1 / (scale * np.maximum(np.abs(y - s), 1e-9)), 1 / scale**2)


def binomial(rng, y, n, scale, alpha, beta, iterations):
    theta, sigma2, below = rng.beta(alpha, beta), np.array([2 * scale**2]), 0
    for _ in range(iterations):
        mean, variance = np.array([n * theta]), np.array([[n * theta * (1 - theta)]])
        mean, covariance = norm_product(mean, variance, y, np.diag(sigma2))
        s = rng.multivariate_normal(mean, covariance)
        a, b = alpha + s[0], beta + n - s[0]
        theta = rng.beta(max(a, 1e-3), max(b, 1e-3))
        sigma2 = new_variance(rng, y, s, scale)
        below += theta < 0.5
    return below


def multinomial(rng, y, n, scale, concentration, iterations):
    theta, below = rng.dirichlet(concentration), 0
    sigma2 = np.full(len(y), 2 * scale**2)
    for _ in range(iterations):
        covariance = n * (np.diag(theta) - np.outer(theta, theta)) + 1e-6 * np.eye(len(y))
        mean, covariance = norm_product(n * theta, covariance, y, np.diag(sigma2))
        s = rng.multivariate_normal(mean, covariance)
        theta = rng.dirichlet(np.maximum(concentration + s, 1e-3))
        sigma2 = new_variance(rng, y, s, scale)
        below += theta[0] < 0.5
    return below


def region(rate, low, high):
    """P, mean and variance of a record given that it lies in a region."""
    density = lambda x: rate * np.exp(-rate * x)  # noqa: E731
    q, first, second = (
        integrate.quad(lambda x, k: x**k * density(x), low, high, args=(k,))[0] for k in (0, 1, 2)
    )
    q = max(q, 1e-300)
    return q, first / q, second / q - (first / q) ** 2


def exponential(rng, y, n, scale, shape, rate0, bounds, iterations):
    rate, sigma2, below = rng.gamma(shape) / rate0, np.array([2 * scale**2]), 0
    regions = ((0, bounds[0]), bounds, (bounds[1], np.inf))
    for _ in range(iterations):
        sums = []
        for edges in regions:
            q, mean, variance = region(rate, *edges)
            sums.append(
                (np.array([n * q * mean]), np.array([[n * q * (variance + (1 - q) * mean**2)]]))
            )
        centre = norm_product(*sums[1], y, np.diag(sigma2))
        total_mean = sums[0][0] + centre[0] + sums[2][0]
        total_covariance = sums[0][1] + centre[1] + sums[2][1]
        s = rng.multivariate_normal(total_mean, total_covariance)
        rate = rng.gamma(shape + n) / max(rate0 + s[0], 1e-3)
        q, mean, variance = region(rate, *bounds)
        released = rng.multivariate_normal(
            [n * q * mean], [[n * q * (variance + (1 - q) * mean**2)]]
        )
        sigma2 = new_variance(rng, y, released, scale)
        below += rate < 4
    return below


def main():
    rng = np.random.default_rng(0)
    bounds = Bounds(0.01, 1.5, outside="redact")
    cases = {
        "binomial": (Setting(families.Bernoulli(), priors.Beta(10, 10), None, 1000, 0.1), "gibbs"),
        "multinomial": (
            Setting(families.Categorical(3), priors.Dirichlet([10.0] * 3), None, 1000, 0.1),
            "gibbs",
        ),
        "exponential": (
            Setting(families.Exponential(), priors.Gamma(8, 2), bounds, 1000, 0.1),
            "gibbs-paper",
        ),
    }
    with threadpool_limits(1):
        for name, (setting, method) in cases.items():
            y = np.array(simulate(setting, 1, rng).releases[0].statistic)
            scale = 1.5 / 0.1 if name == "exponential" else 1 / 0.1
            few = 3500 if name != "exponential" else 700
            start = time.perf_counter()
            if name == "binomial":
                binomial(rng, y, 1000, scale, 10, 10, few)
            elif name == "multinomial":
                multinomial(rng, y, 1000, scale, np.full(3, 10.0), few)
            else:
                exponential(rng, y, 1000, scale, 8, 2, (0.01, 1.5), few)
            one = (BURN_IN + KEPT) / few * (time.perf_counter() - start)
            start = time.perf_counter()
            uniforms(setting, TRIALS, rng, method)
            each = (time.perf_counter() - start) / TRIALS
            print(
                f"{name:12s} one at a time {one:.2f} s a trial; in a batch {each * 1e3:.2f} ms; "
                f"ratio {one / each:.0f} (bar 300)"
            )


if __name__ == "__main__":
    main()
