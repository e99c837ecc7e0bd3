"""Moments of a record's statistic t(x) given that x lies in an interval: by a closed form,
automatic differentiation or quadrature.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import UnsupportedCombination
from noisewise.model import autodiff, quadrature
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family, IntervalMoments

GARBAGE = 1e-11
"""Below this share nothing is left of it."""
CANCELLED = 1e-6
"""A closed-form variance below this share of the second moment has lost its digits, and quadrature
takes over.
"""


def interval_moments(
    family: Family,
    theta: FloatArray,
    lower: float,
    upper: float,
    method: str = "auto",
    least: float = -np.inf,
) -> IntervalMoments:
    """Moments of t(x) given lower <= x <= upper by `method`: closed, autodiff, quadrature, or auto:
    closed where it is accurate.

    `rough` is closed wherever that exists, NaN where it fails: to search with, not to report. Where
    the log probability of the interval is below `least`, auto gives some value in its range.
    """
    if method == "autodiff":
        return autodiff.interval_moments(family, theta, lower, upper)
    if method == "quadrature":
        return quadrature.interval_moments(family, theta, lower, upper)
    if method not in ("auto", "closed", "rough"):
        raise UnsupportedCombination(
            f"unknown method {method!r}; use auto, closed, autodiff or quadrature."
        )
    with np.errstate(all="ignore"):  # what cannot be computed is NaN, and replaced below
        closed = family.closed_moments(theta, lower, upper)
    if method == "closed":
        if closed is None:
            raise UnsupportedCombination(
                f"the {family.kind} family has no closed form for these moments; use quadrature."
            )
        return closed
    if closed is None:
        return quadrature.interval_moments(family, theta, lower, upper)
    variance = np.einsum("bdd->bd", closed.covariance)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = variance / (variance + closed.mean**2)
    possible = _possible(family, closed.mean, variance, lower, upper)
    if method == "rough":
        closed.mean[~((share > GARBAGE) & possible).all(axis=1)] = np.nan
        return closed
    exact = ((share > CANCELLED) & possible).all(axis=1)
    rare = closed.log_probability < least
    if rare.any():
        lost = rare & ~exact
        closed.mean[lost], closed.covariance[lost] = _range(family, lower, upper)[0], 0.0
    redo = ~(np.isfinite(closed.log_probability) & exact) & ~rare
    if not redo.any():
        return closed
    again = quadrature.interval_moments(family, theta[redo], lower, upper)
    for name in ("log_probability", "mean", "covariance"):
        getattr(closed, name)[redo] = getattr(again, name)
    return closed


def _possible(
    family: Family, mean: FloatArray, variance: FloatArray, lower: float, upper: float
) -> NDArray[np.bool_]:
    """Whether a statistic within its range over [lower, upper] can have such a mean and variance,
    (batch, d).
    """
    if not np.isfinite(upper - lower):
        return np.isfinite(mean) & np.isfinite(variance)
    low, high = _range(family, lower, upper)
    with np.errstate(all="ignore"):
        slack = 1e-9 * (high - low) + 1e-12 * np.maximum(np.abs(low), np.abs(high))
        within = (mean >= low - slack) & (mean <= high + slack)
        return np.asarray(within & (variance <= (high - low) ** 2 / 4 * (1 + 1e-6) + slack**2))


@lru_cache(maxsize=256)
def _range(family: Family, lower: float, upper: float) -> tuple[FloatArray, FloatArray]:
    """The least and the greatest of each statistic over the interval, (d,) each."""
    with np.errstate(all="ignore"):
        t = family.statistics(np.linspace(lower, upper, 129))
    return np.nanmin(t, axis=0), np.nanmax(t, axis=0)
