"""Moments of two statistics between finite bounds, on nodes that serve every theta.

p(x | eta) is proportional to h(x) exp(eta . t(x)): with t and log h at fixed nodes of the interval,
the moments of many thetas are two matrix products. Where the density is narrower than a panel the
nodes do not resolve it, and `quadrature`, which follows it, takes over.
"""

from functools import lru_cache

import numpy as np

from noisewise.model import quadrature
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family, IntervalMoments

PANELS, ORDER = 64, 8
"""Of equal length in the coordinate in which the density is log-concave (log x, or the logit), and
the Gauss-Legendre nodes of each.
"""
RESOLVED = 1.0
"""A density whose sd is so many panels is integrated to 12 digits."""
ROWS = 1 << 12
"""Thetas whose densities are held at once."""


def interval_moments(
    family: Family, theta: FloatArray, lower: float, upper: float
) -> IntervalMoments | None:
    """Of t(x) given lower <= x <= upper; None where a bound is not finite in that coordinate."""
    found = _nodes(family, lower, upper)
    if found is None:
        return None
    place, panel, t, log_weight = found
    centre = t.mean(axis=0)  # so that products of a far statistic do not cancel
    away = t - centre
    powers = np.column_stack(
        [np.ones(len(t)), away, away[:, 0] ** 2, away[:, 0] * away[:, 1], away[:, 1] ** 2]
    )
    powers = np.column_stack([powers, place, place**2])
    eta = family.natural(theta)
    log_q, total = np.empty(len(theta)), np.empty((len(theta), powers.shape[1]))
    with np.errstate(all="ignore"):
        for start in range(0, len(theta), ROWS):
            rows = slice(start, start + ROWS)
            value = eta[rows] @ t.T + log_weight
            top = value.max(axis=1, keepdims=True)
            np.exp(value - top, out=value)
            total[rows] = value @ powers
            log_q[rows] = top[:, 0] + np.log(total[rows, 0])
        log_q -= family.log_partition(eta)
        moment = total[:, 1:] / total[:, :1]
        mean, square = moment[:, :2], moment[:, 2:5]
        spread = np.maximum(moment[:, 6] - moment[:, 5] ** 2, 0.0)
    covariance = np.empty((len(theta), 2, 2))
    covariance[:, 0, 0] = square[:, 0] - mean[:, 0] ** 2
    covariance[:, 1, 1] = square[:, 2] - mean[:, 1] ** 2
    covariance[:, 0, 1] = covariance[:, 1, 0] = square[:, 1] - mean[:, 0] * mean[:, 1]
    out = IntervalMoments(log_q, mean + centre, covariance)
    narrow = np.flatnonzero(~(spread > (RESOLVED * panel) ** 2))
    for start in range(0, narrow.size, ROWS):
        some = narrow[start : start + ROWS]
        again = quadrature.interval_moments(family, theta[some], lower, upper, 24)
        for name in ("log_probability", "mean", "covariance"):
            getattr(out, name)[some] = getattr(again, name)
    return out


@lru_cache(maxsize=16)
def _nodes(
    family: Family, lower: float, upper: float
) -> tuple[FloatArray, float, FloatArray, FloatArray] | None:
    """Places in the coordinate, a panel's length, t there, (nodes, 2), and the log of h times the
    weight.
    """
    to_y, to_x, log_slope = quadrature.coordinate(family.support)
    with np.errstate(all="ignore"):
        low, high = to_y(np.array([lower, upper])).tolist()
    if not np.isfinite(high - low):
        return None
    unit, weight = np.polynomial.legendre.leggauss(ORDER)
    edges = np.linspace(low, high, PANELS + 1)
    half = (edges[1] - edges[0]) / 2
    y = ((edges[:-1] + edges[1:])[:, None] / 2 + half * unit).ravel()
    x = np.asarray(to_x(y))
    log_weight = np.tile(np.log(half * weight), PANELS) + log_slope(y) + family.log_base_measure(x)
    return y, 2 * half, family.statistics(x), log_weight
