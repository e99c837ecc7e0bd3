"""A number of records that is not public: the likelihood is summed over n,

  p(y0, y | theta) = sum_n p(n) h(y0 - n) p(y | n, theta),   y0 the noisy count and h its noise.
At a given theta either factor may be the sharper one: h about y0, or p(y | n, theta) about the n at
which n E t^ is y.
The nodes follow both: panels about each, as wide as it is. A panel of few whole numbers is summed,
a wider one integrated
by a Gauss-Legendre rule. The collapsed likelihood is computed at every node, the exact one at few
whole numbers that hold
the mass: their difference is smooth in n.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.mechanism.noise import Noise
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.priors import Prior

_LADDER = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0])
"""Ends of panels in scales of a factor, on either side of it. Beyond 40 scales Laplace noise has
probability e^-40.
"""
_LADDER = np.concatenate([-_LADDER[::-1], [0.0], _LADDER])
_BETWEEN = np.linspace(0, 1, 6)[1:-1]
"""Where the two factors lie far apart, the way between them is cut at these shares."""
_UNIT, _WEIGHT = np.polynomial.legendre.leggauss(6)
"""Nodes of a panel: six are exact for what bends as little as a factor does within one."""
FEW = 32
"""Below so many records the exact likelihood is computed for each number of them."""
MATTERS = 1e-5
"""... that has this share of the mass."""
_SHARES = np.array([1e-3, 0.03, 0.2, 0.5, 0.8, 0.97, 1 - 1e-3])
"""Beyond, at the n below which lie these shares of the mass."""
MANY_SHARES = np.array(
    [1e-5, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99, 1 - 1e-3, 1 - 1e-5]
)
"""The same, where an n costs less."""
_HIGHEST = 2.0**63
"""No number of records is larger."""


@dataclass(frozen=True, slots=True)
class Count:
    """The noisy number of records of each group."""

    value: FloatArray  # (groups,)
    scale: FloatArray  # (groups,)
    kind: type[Noise]
    prior: Prior | None  # of n; None is a flat one

    def take(self, rows: "slice | IntArray") -> "Count":
        """Some of the groups."""
        return Count(self.value[rows], self.scale[rows], self.kind, self.prior)

    @property
    def noise(self) -> Noise:
        """Of the first group's count."""
        return self.kind.make(float(self.scale[0]))

    def log_weight(self, n: FloatArray, group: IntArray) -> FloatArray:
        """log p(n) h(y0 - n), up to a constant, for n of shape (batch, nodes)."""
        value = self.kind.shape.log_kernel(self.value[group, None] - n, self.scale[group, None])
        if self.prior is None:
            return value
        with np.errstate(all="ignore"):
            known = self.prior.log_density(np.maximum(n, 1e-300).reshape(-1, 1)).reshape(n.shape)
        return np.asarray(value + np.nan_to_num(known, nan=-np.inf))

    def nodes(
        self, peak: FloatArray, width: FloatArray, group: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """n and its log weight, (batch, nodes) each; peak and width, (batch, d), say where the
        statistics see n.
        """
        value, scale = self.value[group, None], self.scale[group, None]
        peak = np.where(np.isfinite(peak), peak, value)
        width = np.where(np.isfinite(width), width, scale)
        ends = [value + scale * _LADDER]
        for j in range(peak.shape[1]):
            ends.append(peak[:, j, None] + width[:, j, None] * _LADDER)
            ends.append(value + (peak[:, j, None] - value) * _BETWEEN)
        edges = np.concatenate(ends, axis=1)
        edges = np.clip(np.floor(np.where(edges > 0, edges, 0.0)) + 0.5, -0.5, _HIGHEST)
        # so that n = 0 is among the nodes
        edges = np.concatenate([np.full((len(edges), 1), -0.5), edges], axis=1)
        edges = np.sort(edges, axis=1)
        low, number = edges[:, :-1], np.diff(edges)
        few = number <= _UNIT.size
        place = np.arange(_UNIT.size)
        # A panel of at most six whole numbers is summed; edges halfway between two make a wider one
        # nearly its integral.
        inside = np.where(few[:, :, None], 0.5 + place, number[:, :, None] * (1 + _UNIT) / 2)
        with np.errstate(divide="ignore"):
            weight = np.where(
                few[:, :, None],
                np.where(place < number[:, :, None], 0.0, -np.inf),
                np.log(number[:, :, None] * _WEIGHT / 2),
            )
        n = np.maximum((low[:, :, None] + inside).reshape(len(edges), -1), 0.0)
        return n, weight.reshape(len(edges), -1) + self.log_weight(n, group)


def anchors(
    n: FloatArray, log_mass: FloatArray, shares: FloatArray = _SHARES
) -> tuple[IntArray, FloatArray]:
    """Whole numbers at which the exact likelihood is wanted: their rows of the batch, and the
    numbers, increasing by row.
    """
    order = np.argsort(n, axis=1)
    n, log_mass = np.take_along_axis(n, order, axis=1), np.take_along_axis(log_mass, order, axis=1)
    top = log_mass.max(axis=1, keepdims=True)
    mass = np.exp(log_mass - np.where(np.isfinite(top), top, 0.0))
    below = np.cumsum(mass, axis=1)
    total = below[:, -1:]
    small_row, small = np.nonzero((n < FEW) & (mass > MATTERS * total))
    rows, numbers = [small_row], [np.round(n[small_row, small])]
    for share in shares:
        at = np.minimum((below < share * total).sum(axis=1), n.shape[1] - 1)
        rows.append(np.arange(len(n)))
        numbers.append(np.round(n[np.arange(len(n)), at]))
    row, number = np.concatenate(rows), np.concatenate(numbers)
    keep = (number > 0) & (total[row, 0] > 0)
    pairs = np.unique(np.stack([row[keep].astype(float), number[keep]], axis=1), axis=0)
    return pairs[:, 0].astype(np.int64), pairs[:, 1]


def between(row: IntArray, number: FloatArray, value: FloatArray, n: FloatArray) -> FloatArray:
    """From values at the anchors to those at the nodes n, (batch, nodes): straight between,
    constant beyond; 0 without any.
    """
    batch = len(n)
    low, high = np.full(batch, np.inf), np.full(batch, -np.inf)
    np.minimum.at(low, row, number)
    np.maximum.at(high, row, number)
    span = np.where(high > low, high - low, 1.0)
    # One interpolation for all rows: row r lies on [2 r, 2 r + 1].
    at = 2.0 * row + (number - low[row]) / span[row]
    wanted = 2.0 * np.arange(batch)[:, None] + np.clip(
        (n - low[:, None]) / span[:, None], 0.0, np.where(high > low, 1.0, 0.0)[:, None]
    )
    known = np.isfinite(low)
    out = np.zeros(n.shape)
    if row.size:
        out[known] = np.interp(wanted[known], at, value)
    return out


def log_sum(value: FloatArray, log_weight: FloatArray) -> FloatArray:
    """log of the sum over n of e^value, (batch, nodes)."""
    total = np.where(np.isnan(value), -np.inf, value) + log_weight
    top = total.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(total - top[:, None]).sum(axis=1)) + top)
