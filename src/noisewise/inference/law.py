"""The law of one record's bounded statistic t^(x): weighted points, from which everything exact is computed."""

from dataclasses import dataclass

import numpy as np

from noisewise.model import quadrature
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family

LATTICE_CELLS = 4096
"""Records are rounded to their lattice here too if it has at most this many points; a finer one is no different from none."""


@dataclass(frozen=True, slots=True)
class Law:
    """t^ is value[:, j] with probability weight[:, j]; the last `atoms` columns are point masses, the others quadrature nodes."""

    value: FloatArray  # (batch, m, d)
    weight: FloatArray  # (batch, m), sums to 1
    atoms: int


def record_law(family: Family, theta: FloatArray, bounds: Bounds | None, order: int = 32) -> Law:
    """The law of t^(x) at each theta, with `order` nodes on either side of the density's peak, or every whole number.

    `redact`: the mass outside sits at 0. `clamp`: the mass of each tail sits at t of its bound.
    """
    if bounds is None:
        return _whole_support(family, theta)
    low, high = (np.ceil(bounds.lower), np.floor(bounds.upper)) if family.integer else (bounds.lower, bounds.upper)
    at = quadrature.nodes(family, theta, low, high, order)
    weight = np.exp(at.log_weight)
    value = np.stack([np.asarray(column, dtype=float) for column in family.statistic(at.x, np)], axis=-1)
    inside = weight.sum(axis=1)
    if bounds.outside == "redact":
        points = [np.zeros(value.shape[2])]
        masses = [np.maximum(1 - inside, 0.0)]
    else:
        edges = np.array([low - 1 if family.integer else low, high])
        cdf = family.cdf(edges, theta)  # (batch, 2)
        below = cdf[:, 0] if low > family.support[0] else np.zeros(len(theta))
        above = np.maximum(1 - inside - below, 0.0) if high < family.support[1] else np.zeros(len(theta))
        points = [np.array([float(column) for column in family.statistic(np.float64(edge), np)]) for edge in (low, high)]
        masses = [below, above]
    value = np.concatenate([value, np.broadcast_to(points, (len(theta), *np.shape(points)))], axis=1)
    weight = np.concatenate([weight, np.stack(masses, axis=1)], axis=1)
    return Law(value, weight / weight.sum(axis=1, keepdims=True), len(masses))


def _whole_support(family: Family, theta: FloatArray) -> Law:
    """A family that is bounded by itself."""
    at = quadrature.nodes(family, theta, *family.support)
    value = np.stack([np.asarray(column, dtype=float) for column in family.statistic(at.x, np)], axis=-1)
    weight = np.exp(at.log_weight)
    return Law(value, weight / weight.sum(axis=1, keepdims=True), 0)


def on_lattice(law: Law, steps: FloatArray) -> Law:
    """The same law in steps, rounded to whole ones, as a release on a coarse lattice has it; all of it is point masses."""
    return Law(np.floor(law.value / steps + 0.5), law.weight, law.value.shape[1])
