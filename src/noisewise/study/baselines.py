"""Answers to compare with, none of them to rely on: non-private, and one-posterior
sampling (OPS).
"""

import numpy as np
from scipy import special

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family
from noisewise.model.priors import Prior

OPS_DRAWS = 100
"""Draws of OPS, among which epsilon is shared, as in the paper's figures."""
OPS_MARGIN = 0.1
"""a0: OPS keeps theta this far from 0 and 1, where log p(x | theta) is bounded, as there."""


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
