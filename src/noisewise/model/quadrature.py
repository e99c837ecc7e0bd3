"""Nodes and weights that integrate any family's density over an interval, or sum it over whole
numbers.

The only method that needs nothing but a density; it is also the most accurate one far in a tail,
because central moments are sums of squares and nothing cancels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family, IntervalMoments

DROP = 50.0
"""Where the log density lies this far below its peak, the rest is left out: e^-50 is below 1e-21.
"""
MAX_TERMS = 1 << 20
"""Whole numbers that a sum over a support may have."""
LARGEST, LARGEST_LOG = (-1e15, 1e15), (-700.0, 700.0)
"""Between them y lies, where it is x and where it is log x or the logit."""
HIGHEST_LOGIT = 33.0
"""1 - expit(33) has a digit left."""
_SEVENTEEN = np.linspace(0.0, 1.0, 17)
"""Points of a bracket: each round narrows it by eight."""
_HALVES = np.append(2.0 ** -np.arange(50.0), 0.0)
"""Shares of the way from a peak to an edge, from all of it down to nothing."""
_legendre = lru_cache(maxsize=None)(np.polynomial.legendre.leggauss)


@dataclass(frozen=True, slots=True)
class Nodes:
    """sum_k exp(log_weight[:, k]) f(x[:, k]) is the integral of p(x | theta) f(x) over the
    interval.
    """

    x: FloatArray  # (batch, m)
    log_weight: FloatArray  # (batch, m)


def nodes(family: Family, theta: FloatArray, lower: float, upper: float, order: int = 64) -> Nodes:
    """Gauss-Legendre nodes on either side of the density's peak in [lower, upper]; every whole
    number if `family.integer`.
    """
    lower, upper = max(lower, family.support[0]), min(upper, family.support[1])
    if family.integer:
        return _support_points(family, theta, np.ceil(lower), np.floor(upper))
    to_y, to_x, log_slope = coordinate(family.support)

    def log_density(y: FloatArray) -> FloatArray:  # (batch, m) -> (batch, m)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = family.log_density(to_x(y), theta) + log_slope(y)
        return np.where(np.isnan(value), -np.inf, value)

    with np.errstate(divide="ignore"):
        ends = to_y(np.array([lower, upper]))
    domain = np.clip(ends, *(LARGEST if to_x is np.asarray else LARGEST_LOG))
    if family.support == (0.0, 1.0):
        domain = np.minimum(domain, HIGHEST_LOGIT)
    left, peak, right = _extent(log_density, domain[0], domain[1], len(theta))
    unit, unit_weight = _legendre(order)
    ys, log_widths = [], []
    for start, end in ((left, peak), (peak, right)):
        half = (end - start) / 2
        ys.append(start[:, None] + half[:, None] * (1 + unit))
        with np.errstate(divide="ignore"):  # an empty side has weight 0
            log_widths.append(np.log(half)[:, None] + np.log(unit_weight))
    y = np.concatenate(ys, axis=1)
    return Nodes(np.asarray(to_x(y)), log_density(y) + np.concatenate(log_widths, axis=1))


Map = Callable[[FloatArray], FloatArray]


def coordinate(support: tuple[float, float]) -> tuple[Map, Map, Map]:
    """From x to the y in which densities are smooth, back, and log dx/dy: log x where x is
    positive, so that densities may blow up at 0 or have heavy tails, the logit where it ends at 1,
    else x itself.
    """
    if support[0] < 0 or (support[0] > 0 and support[1] < np.inf):
        return np.asarray, np.asarray, np.zeros_like
    if support == (0.0, 1.0):
        return special.logit, special.expit, lambda y: special.log_expit(y) + special.log_expit(-y)
    return np.log, np.exp, np.asarray


def interval_moments(
    family: Family, theta: FloatArray, lower: float, upper: float, order: int = 64
) -> IntervalMoments:
    """Moments of t(x) given lower <= x <= upper, by quadrature or by a sum over the support."""
    at = nodes(family, theta, lower, upper, order)
    top = at.log_weight.max(axis=1, keepdims=True)
    weight = np.exp(at.log_weight - top)
    total = weight.sum(axis=1)
    t = family.statistics(at.x)  # (batch, m, d)
    probability = weight / total[:, None]
    mean = np.einsum("bm,bmd->bd", probability, t)
    centred = t - mean[:, None, :]
    covariance = np.einsum("bm,bmd,bme->bde", probability, centred, centred)
    return IntervalMoments(top[:, 0] + np.log(total), mean, covariance)


def _extent(
    log_density: Callable[[FloatArray], FloatArray], lower: float, upper: float, batch: int
) -> tuple[FloatArray, ...]:
    """For each theta about where a unimodal log density in [lower, upper] peaks, and where it has
    dropped by DROP on either side.

    The peak is good enough where its neighbours on the grid lie little lower, the sides where they
    are at most an eighth too far out: they are only the ends of panels on which the density is
    integrated.
    """
    grid = np.sinh(np.linspace(np.arcsinh(lower), np.arcsinh(upper), 65))
    grid[0], grid[-1] = lower, upper
    y = np.broadcast_to(grid, (batch, grid.size))
    rows = np.arange(batch)
    for _ in range(40):  # each round narrows the bracket by 8
        value = log_density(y)
        best = np.argmax(value, axis=1)
        before, after = np.maximum(best - 1, 0), np.minimum(best + 1, y.shape[1] - 1)
        top, start, end = value[rows, best], y[rows, before], y[rows, after]
        with np.errstate(invalid="ignore"):  # -inf - -inf
            steep = top - np.minimum(value[rows, before], value[rows, after]) > 2.0
        peak = y[rows, best]
        if not (steep & (end - start > 1e-12 * np.abs(peak))).any():
            break
        y = start[:, None] + (end - start)[:, None] * _SEVENTEEN
    sides = []
    for edge in (lower, upper):
        whole = log_density(np.full((batch, 1), edge))[:, 0] >= top - DROP
        if whole.all():  # all the way to the edge
            sides.append(np.full(batch, edge))
            continue
        # of the way from the peak to the edge: within, and at or beyond the drop
        share = np.zeros(batch), np.ones(batch)
        for fractions in (_HALVES, _SEVENTEEN[::-2]):
            low, high = share
            tried = low[:, None] + (high - low)[:, None] * fractions
            beyond = (
                log_density(peak[:, None] + (edge - peak)[:, None] * tried) < (top - DROP)[:, None]
            )
            last = np.where(
                beyond.any(1), beyond.shape[1] - 1 - np.argmax(beyond[:, ::-1], axis=1), 0
            )
            share = (
                tried[rows, np.minimum(last + 1, fractions.size - 1)],
                np.where(beyond.any(1), tried[rows, last], 1.0),
            )
        sides.append(peak + (edge - peak) * share[1])
    return sides[0], peak, sides[1]


def _support_points(family: Family, theta: FloatArray, lower: float, upper: float) -> Nodes:
    """Every whole number of [lower, upper] that carries weight."""

    def log_density(y: FloatArray) -> FloatArray:
        value = family.log_density(y, theta)
        return np.where(np.isnan(value), -np.inf, value)

    if upper - lower < 64:
        x = np.broadcast_to(np.arange(lower, upper + 1), (len(theta), int(upper - lower) + 1))
        return Nodes(np.asarray(x, dtype=float), log_density(x))
    left, _, right = _extent(log_density, lower, min(upper, 1e15), len(theta))
    left, right = np.floor(left), np.minimum(np.ceil(right), upper)
    count = int((right - left).max()) + 1
    if count > MAX_TERMS:
        raise UnsupportedCombination(
            f"summing the {family.kind} family over {count} whole numbers takes too long; narrow "
            "the bounds."
        )
    x = left[:, None] + np.arange(count)
    return Nodes(x, np.where(x <= right[:, None], log_density(x), -np.inf))
