"""The law of one record's bounded statistic t^(x): weighted points, from which everything exact is
computed.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from noisewise.model import quadrature
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family

LATTICE_CELLS = 4096
"""Records are rounded to their lattice here too if it has at most this many points; a finer one is
no different from none.
"""
PIECES = 1 << 15
"""Where a rounded statistic changes is looked for in so many parts of the bounds."""
CANCELLED = 1e-9
"""A difference of two values of the CDF that is smaller has too few digits left."""
NOTHING = -100.0
"""The log of a probability that no number of records brings back."""
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, slots=True)
class Law:
    """t^ is value[:, j] with probability weight[:, j]; the last `atoms` columns are point masses,
    the others quadrature nodes.
    """

    value: FloatArray  # (batch, m, d)
    weight: FloatArray  # (batch, m), sums to 1
    atoms: int


def record_law(family: Family, theta: FloatArray, bounds: Bounds | None, order: int = 32) -> Law:
    """The law of t^(x) at each theta, with `order` nodes on either side of the density's peak, or
    every whole number.

    `redact`: the mass outside sits at 0. `clamp`: the mass of each tail sits at t of its bound.
    """
    if bounds is None:
        return _whole_support(family, theta)
    low, high = (
        (np.ceil(bounds.lower), np.floor(bounds.upper))
        if family.integer
        else (bounds.lower, bounds.upper)
    )
    at = quadrature.nodes(family, theta, low, high, order)
    weight = np.exp(at.log_weight)
    value = np.stack(
        [np.asarray(column, dtype=float) for column in family.statistic(at.x, np)], axis=-1
    )
    inside = weight.sum(axis=1)
    if bounds.outside == "redact":
        points = [np.zeros(value.shape[2])]
        masses = [np.maximum(1 - inside, 0.0)]
    else:
        edges = np.array([low - 1 if family.integer else low, high])
        cdf = family.cdf(edges, theta)  # (batch, 2)
        below = cdf[:, 0] if low > family.support[0] else np.zeros(len(theta))
        above = (
            np.maximum(1 - inside - below, 0.0)
            if high < family.support[1]
            else np.zeros(len(theta))
        )
        points = [
            np.array([float(column) for column in family.statistic(np.float64(edge), np)])
            for edge in (low, high)
        ]
        masses = [below, above]
    value = np.concatenate(
        [value, np.broadcast_to(points, (len(theta), *np.shape(points)))], axis=1
    )
    weight = np.concatenate([weight, np.stack(masses, axis=1)], axis=1)
    return Law(value, weight / weight.sum(axis=1, keepdims=True), len(masses))


def _whole_support(family: Family, theta: FloatArray) -> Law:
    """A family that is bounded by itself."""
    at = quadrature.nodes(family, theta, *family.support)
    value = np.stack(
        [np.asarray(column, dtype=float) for column in family.statistic(at.x, np)], axis=-1
    )
    weight = np.exp(at.log_weight)
    return Law(value, weight / weight.sum(axis=1, keepdims=True), 0)


def on_lattice(law: Law, steps: FloatArray) -> Law:
    """The law of whole numbers in units of the steps; all of it is point masses."""
    return Law(law.value / steps, law.weight, law.value.shape[1])


def rounded_law(family: Family, theta: FloatArray, bounds: Bounds, steps: FloatArray) -> Law:
    """The law of t^(x) rounded to a coarse lattice, in steps: the probability of each lattice
    point, all point masses.
    """
    edges, value = _pieces(family, bounds.lower, bounds.upper, tuple(steps))
    weight = _probabilities(family, theta, edges)
    inside = weight.sum(axis=1)
    if bounds.outside == "redact":
        points, masses = np.zeros((1, value.shape[1])), [np.maximum(1 - inside, 0.0)]
    else:
        below = (
            family.cdf(edges[:1], theta)[:, 0]
            if edges[0] > family.support[0]
            else np.zeros(len(theta))
        )
        points, masses = value[[0, -1]], [below, np.maximum(1 - inside - below, 0.0)]
    every = np.concatenate([value, points])
    weight = np.concatenate([weight, np.stack(masses, axis=1)], axis=1)
    return Law(
        np.broadcast_to(every, (len(theta), *every.shape)),
        weight / weight.sum(axis=1, keepdims=True),
        len(every),
    )


@lru_cache(maxsize=32)
def _pieces(
    family: Family, lower: float, upper: float, steps: tuple[float, ...]
) -> tuple[FloatArray, FloatArray]:
    """The intervals of x on which the rounded statistics are constant: their ends, and the
    statistics in steps, (pieces, d).
    """

    def rounded(x: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            columns = [
                np.asarray(t, dtype=float) / step
                for t, step in zip(family.statistic(x, np), steps, strict=True)
            ]
        return np.stack(
            [np.floor(np.where(np.isfinite(t), t, 0.0) + 0.5) for t in columns], axis=-1
        )

    at = np.linspace(lower, upper, PIECES + 1)
    edges, values = [np.array([lower])], [rounded(at[:1])]
    left, value = at[:-1], rounded(at[:-1])
    target = rounded(at[1:])
    right = at[1:]
    ends, kept = [], []
    for _ in range(8):  # a cell may hold several steps, one after the other
        differ = (value != target).any(axis=1)
        left, right, value, target = left[differ], right[differ], value[differ], target[differ]
        if left.size == 0:
            break
        low, high = left, right
        for _ in range(60):
            middle = (low + high) / 2
            same = (rounded(middle) == value).all(axis=1)
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        ends.append(high)
        kept.append(rounded(high))
        left, value = high, kept[-1]
    if ends:
        found, of = np.concatenate(ends), np.concatenate(kept)
        order = np.argsort(found)
        edges, values = [*edges, found[order]], [*values, of[order]]
    return np.concatenate([*edges, [upper]]), np.concatenate(values)


def _probabilities(family: Family, theta: FloatArray, edges: FloatArray) -> FloatArray:
    """P(edge < x <= next edge), (batch, pieces): differences of the CDF, or where these have lost
    their digits an integral.
    """
    with np.errstate(all="ignore"):
        weight = np.maximum(np.diff(family.cdf(edges, theta), axis=1), 0.0)
        log_density = family.log_density(edges, theta)
        at_ends = np.maximum(log_density[:, :-1], log_density[:, 1:]) + np.log(np.diff(edges))
        row, piece = np.nonzero((weight < CANCELLED) & ~(at_ends < NOTHING))
        half = np.diff(edges)[piece, None] / 2
        density = np.exp(family.log_density(edges[piece, None] + half * (1 + _UNIT), theta[row]))
        weight[row, piece] = np.minimum(
            np.nan_to_num(density @ _UNIT_WEIGHT * half[:, 0]), CANCELLED
        )
        weight[at_ends < NOTHING] = 0.0
    return np.nan_to_num(weight)
