"""Priors of what a report shows, beside the posteriors."""

from typing import Any

import numpy as np

from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.quantities import of_draws
from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import Linear, NormalInverseWishart
from noisewise.model.columns import Number
from noisewise.model.families.moments import Moments
from noisewise.model.family import Family
from noisewise.model.priors import Prior

DRAWS = 20_000
"""Of a prior."""
TAILS = (0.05, 0.95)
"""Of the intervals that are shown."""


def prior_draws(prior: Prior, family: Family, name: str) -> tuple[FloatArray, Axis]:
    """Draws of a parameter or of a quantity beside it, (draws,), and its range."""
    theta = prior.draw(np.random.default_rng(0), DRAWS)
    for j, one in enumerate(family.parameters):
        if one.name == name:
            return theta[:, j], Axis.of(one)
    which = next(one for one in family.derived if one.name == name)
    return of_draws(which, family.parameters, list(theta.T)), Axis(which.lower, which.upper)


def prior_density(draws: FloatArray, axis: Axis, at: FloatArray) -> FloatArray:
    """The density at some values, smoothed in coordinates without bounds, where no tail is too
    long.
    """
    from scipy.stats import gaussian_kde

    psi = axis.psi(draws[np.isfinite(draws)])
    where = axis.psi(at)
    inside = (at > axis.lower) & (at < axis.upper)
    height = gaussian_kde(psi[:4000])(where) * np.exp(-axis.log_jacobian(where))
    return np.asarray(np.where(inside, height, 0.0))


def interval(draws: FloatArray) -> tuple[float, float]:
    """The central 90 % of them."""
    low, high = np.quantile(draws, TAILS)
    return float(low), float(high)


def category_intervals(prior: Any) -> tuple[FloatArray, FloatArray]:
    """Of a Dirichlet's probabilities: both ends, (k,)."""
    from scipy import stats

    a = np.asarray(prior.concentration, dtype=float)
    low, high = (stats.beta.ppf(q, a, a.sum() - a) for q in TAILS)
    return np.asarray(low), np.asarray(high)


def mean_intervals(prior: NormalInverseWishart, family: Moments) -> dict[str, tuple[float, float]]:
    """Of each column's mean, in its units; what would lie outside the bounds is left out."""
    from scipy import stats

    q = len(family.numeric)
    centre, scale = prior.of(q)
    rng = np.random.default_rng(0)
    sigma = stats.invwishart.rvs(prior.degrees, scale, DRAWS, random_state=rng).reshape(-1, q, q)
    root = np.linalg.cholesky(sigma / prior.strength)
    mu = centre + np.einsum("tij,tj->ti", root, rng.standard_normal((DRAWS, q)))
    inside = np.all(mu**2 + np.diagonal(sigma, axis1=1, axis2=2) <= 1, axis=1)
    kept = mu[inside] if inside.sum() >= 50 else np.clip(mu, -1, 1)
    return {
        one.name: (
            one.bounds.middle + one.bounds.radius * float(np.quantile(kept[:, j], TAILS[0])),
            one.bounds.middle + one.bounds.radius * float(np.quantile(kept[:, j], TAILS[1])),
        )
        for j, one in enumerate(family.numeric)
    }


def coefficient_intervals(prior: Linear, model: Any) -> dict[str, tuple[float, float]]:
    """Of each coefficient after the intercept, in its units."""
    names = model.coefficients
    sds = dict(zip(("intercept", *names), prior.sds(names), strict=True))
    unit = model.outcome.bounds.radius
    out = {}
    for column in model.on:
        for name in column.names:
            per = column.bounds.radius if isinstance(column, Number) else 1.0
            reach = 1.6449 * float(sds[name]) * unit / per
            out[name] = (-reach, reach)
    return out
