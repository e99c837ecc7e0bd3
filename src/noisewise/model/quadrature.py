"""Nodes and weights that integrate any family's density over an interval, or sum it over whole numbers.

The only method that needs nothing but a density; it is also the most accurate one far in a tail, because central
moments are sums of squares and nothing cancels.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family, IntervalMoments

DROP = 50.0
"""Where the log density lies this far below its peak, the rest is left out: e^-50 is below 1e-21."""
MAX_TERMS = 1 << 20


@dataclass(frozen=True, slots=True)
class Nodes:
    """sum_k exp(log_weight[:, k]) f(x[:, k]) is the integral of p(x | theta) f(x) over the interval."""

    x: FloatArray  # (batch, m)
    log_weight: FloatArray  # (batch, m)


def nodes(family: Family, theta: FloatArray, lower: float, upper: float, order: int = 64) -> Nodes:
    """Gauss-Legendre nodes on either side of the density's peak in [lower, upper]; every whole number if `family.integer`."""
    lower, upper = max(lower, family.support[0]), min(upper, family.support[1])
    if family.integer:
        return _support_points(family, theta, np.ceil(lower), np.floor(upper))
    logarithmic = family.support[0] == 0  # then x = e^y: densities that blow up at 0 become smooth
    to_y, to_x = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)

    def log_density(y: FloatArray) -> FloatArray:  # (batch, m) -> (batch, m)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = family.log_density(to_x(y), theta) + (y if logarithmic else 0.0)
        return np.where(np.isnan(value), -np.inf, value)

    with np.errstate(divide="ignore"):
        domain = np.clip([to_y(lower), to_y(upper)], *((-700.0, 700.0) if logarithmic else (-1e15, 1e15)))
    left, peak, right = _extent(log_density, domain[0], domain[1], len(theta))
    unit, unit_weight = np.polynomial.legendre.leggauss(order)
    ys, log_widths = [], []
    for start, end in ((left, peak), (peak, right)):
        half = (end - start) / 2
        ys.append(start[:, None] + half[:, None] * (1 + unit))
        with np.errstate(divide="ignore"):  # an empty side has weight 0
            log_widths.append(np.log(half)[:, None] + np.log(unit_weight))
    y = np.concatenate(ys, axis=1)
    return Nodes(np.asarray(to_x(y)), log_density(y) + np.concatenate(log_widths, axis=1))


def interval_moments(family: Family, theta: FloatArray, lower: float, upper: float, order: int = 64) -> IntervalMoments:
    """Moments of t(x) given lower <= x <= upper, by quadrature or by a sum over the support."""
    at = nodes(family, theta, lower, upper, order)
    top = at.log_weight.max(axis=1, keepdims=True)
    weight = np.exp(at.log_weight - top)
    total = weight.sum(axis=1)
    t = np.stack([np.asarray(column, dtype=float) for column in family.statistic(at.x, np)], axis=-1)  # (batch, m, d)
    probability = weight / total[:, None]
    mean = np.einsum("bm,bmd->bd", probability, t)
    centred = t - mean[:, None, :]
    covariance = np.einsum("bm,bmd,bme->bde", probability, centred, centred)
    return IntervalMoments(top[:, 0] + np.log(total), mean, covariance)


def _extent(log_density, lower: float, upper: float, batch: int):  # type: ignore[no-untyped-def]
    """For each theta the peak of a unimodal log density in [lower, upper] and where it has dropped by DROP on either side."""
    grid = np.sinh(np.linspace(np.arcsinh(lower), np.arcsinh(upper), 513))
    grid[0], grid[-1] = lower, upper
    best = np.argmax(log_density(np.broadcast_to(grid, (batch, grid.size))), axis=1)
    start, end = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, grid.size - 1)]

    def at(y: FloatArray) -> FloatArray:
        return np.asarray(log_density(y[:, None])[:, 0])

    for _ in range(120):  # ternary search; (2/3)^120 of a bracket of 1e15 is below 1e-6
        third = (end - start) / 3
        rising = at(start + third) < at(end - third)
        start, end = np.where(rising, start + third, start), np.where(rising, end, end - third)
    candidates = np.stack([(start + end) / 2, np.full(batch, lower), np.full(batch, upper)])
    peak = candidates[np.argmax(np.stack([at(c) for c in candidates]), axis=0), np.arange(batch)]
    floor = at(peak) - DROP
    sides = []
    for edge in (lower, upper):
        out, inside = np.full(batch, edge), peak
        reaches = at(out) >= floor
        for _ in range(100):
            middle = (out + inside) / 2
            above = at(middle) >= floor
            out, inside = np.where(above, out, middle), np.where(above, middle, inside)
        sides.append(np.where(reaches, edge, out))
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
            f"summing the {family.kind} family over {count} whole numbers takes too long; narrow the bounds."
        )
    x = left[:, None] + np.arange(count)
    return Nodes(x, np.where(x <= right[:, None], log_density(x), -np.inf))
