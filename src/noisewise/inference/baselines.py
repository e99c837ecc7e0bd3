"""Answers to compare with, none of them to rely on: naive, non-private, and one-posterior sampling
(OPS).
"""

import numpy as np
from scipy import special

from noisewise.errors import UnsupportedCombination
from noisewise.inference.evidence import Evidence
from noisewise.model.arrays import FloatArray
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family
from noisewise.model.priors import Prior

OPS_DRAWS = 100
OPS_MARGIN = 0.1


def naive(evidence: Evidence, prior: Prior, group: int = 0) -> Prior:
    """The conjugate update on the noisy statistic as if it were the true one, brought to the
    nearest possible value.
    """
    family, n, bounds = evidence.family, int(evidence.n[group]), evidence.bounds
    y = evidence.y[group : group + 1].copy()
    if isinstance(family, Categorical):
        y = np.maximum(y, 0.0)
        y *= n / y.sum() if y.sum() > 0 else 0.0
        return family.update(prior, y if y.sum() > 0 else np.full(y.shape, n / y.shape[1]), n)
    if bounds is None:
        low, high = (
            np.array([float(column) for column in family.statistic(np.float64(x), np)])
            for x in family.support
        )
        return family.update(
            prior, np.clip(y, n * np.minimum(low, high), n * np.maximum(low, high)), n
        )
    if evidence.standardised:
        c, r = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
        s1 = np.clip(y[:, 0], -n, n)
        s2 = np.clip(y[:, 1], s1**2 / max(n, 1), n)
        y = np.stack([n * c + r * s1, n * c * c + 2 * c * r * s1 + r * r * s2], axis=1)
        return family.update(prior, y, n)
    x = np.linspace(bounds.lower, bounds.upper, 4097)
    t = np.stack([np.asarray(column, dtype=float) for column in family.statistic(x, np)], axis=1)
    low = np.minimum(t.min(axis=0), 0.0 if bounds.outside == "redact" else np.inf)
    y = np.clip(y, n * low, n * t.max(axis=0))
    if family.polynomial:
        y[:, 1] = np.maximum(y[:, 1], y[:, 0] ** 2 / max(n, 1))
    return family.update(prior, y, n)


def non_private(family: Family, prior: Prior, statistic: FloatArray, n: int) -> Prior:
    """The conjugate posterior given the true sums of t(x) over all records, (batch, d): what noise
    costs is measured from it.
    """
    return family.update(prior, statistic, n)


def ops(
    alpha: float, beta: float, successes: float, n: int, epsilon: float, rng: np.random.Generator
) -> FloatArray:
    """OPS for the binomial (Foulds et al. 2016): draws from the tempered posterior on [a0, 1 - a0],
    each at epsilon / draws.

    The exponential mechanism with the log joint density as utility: (p(theta) p(x | theta))^tau,
    tau = min(1, e / 2D), D = log((1 - a0)/a0), the largest change of log p(x | theta) on that range
    when one record is replaced.
    """
    if epsilon <= 0:
        raise UnsupportedCombination(f"epsilon must be positive, got {epsilon}.")
    tau = min(1.0, epsilon / OPS_DRAWS / (2 * np.log((1 - OPS_MARGIN) / OPS_MARGIN)))
    a = tau * (alpha - 1 + successes) + 1
    b = tau * (beta - 1 + n - successes) + 1
    low, high = special.betainc(a, b, OPS_MARGIN), special.betainc(a, b, 1 - OPS_MARGIN)
    if high - low > 1e-12:
        return np.asarray(special.betaincinv(a, b, low + (high - low) * rng.random(OPS_DRAWS)))
    grid = np.linspace(OPS_MARGIN, 1 - OPS_MARGIN, 100_001)  # all of it in a tail: invert on a grid
    log_density = (a - 1) * np.log(grid) + (b - 1) * np.log1p(-grid)
    weight = np.cumsum(np.exp(log_density - log_density.max()))
    return np.asarray(np.interp(rng.random(OPS_DRAWS) * weight[-1], weight, grid))
