"""Likelihood curves of many groups made ready for integration: panels of Gauss-Legendre nodes that
follow each curve, and the curve itself between its points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.pooling.curves import Curve
from noisewise.inference.pooling.populations import Normal, Population
from noisewise.model.arrays import FloatArray, IntArray

UNIT, WEIGHT = np.polynomial.legendre.leggauss(6)
"""Nodes of a panel: exact for polynomials up to degree 11."""
CELLS = 4.0
"""Cells of a curve's own grid in a panel: in one cell the log density bends by a tenth."""
DEEP = 45.0
"""Where a likelihood is e^-45 of its peak, only populations far from it are told anything."""
WIDE, WIDEST, MIDDLE = 2.0, 6.0, 14.0
"""Panels of a logit or a logarithm within 14 of the middle, and of their tails, in which a
population is an exponential.
"""
REACH = 12.0
"""A normal population, whose sd is at most the width of the range of its mean, is nothing so many
of these widths away.
"""
NOTHING = 1e-300
"""The weight of a node that only fills its row."""
BORDER = 1e30
"""The width of what lies between two groups, which is no cell."""
UNEVEN = 0.1
"""Beside a cell narrower than this share of its own, a cell bends by no more than its rise."""
CLIFF = 20.0
"""A curve that changes by more from one point to the next is straight there."""


@dataclass(frozen=True)
class Interpolants:
    """log L of every group at any psi: cubic between the points of its curve, straight beyond them
    where it falls, constant where it would rise.
    """

    key: FloatArray  # (points,): 2 g + (psi - low)/(high - low)
    psi: FloatArray
    value: FloatArray
    slope: FloatArray
    rise: FloatArray  # (points,): of the cell to the right of each
    left: FloatArray  # (points,): the slopes at its ends, times its width
    right: FloatArray
    low: FloatArray  # (groups,)
    high: FloatArray
    start: IntArray  # (groups + 1,)

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> "Interpolants":
        """Of all groups."""
        psi = np.concatenate([one.psi for one in curves])
        value = np.concatenate([one.value for one in curves])
        slope = np.concatenate([_slopes(one.psi, one.value) for one in curves])
        start = np.concatenate([[0], np.cumsum([one.psi.size for one in curves])])
        low, high = psi[start[:-1]], psi[start[1:] - 1]
        group = np.repeat(np.arange(len(curves)), np.diff(start))
        key = 2.0 * group + (psi - low[group]) / (high - low)[group]
        first, last = start[:-1], start[1:] - 1
        slope[first], slope[last] = np.maximum(slope[first], 0.0), np.minimum(slope[last], 0.0)
        width, rise = np.diff(psi, append=0.0), np.diff(value, append=0.0)
        width[last], rise[last] = BORDER, 0.0
        before, after = np.roll(width, 1), np.roll(width, -1)
        sides = []
        for beside, at_end in ((before, slope), (after, np.roll(slope, -1))):
            # a slope that was read off a cell far narrower than this one may be anything here
            most = np.where(beside < UNEVEN * width, np.abs(rise), np.inf)
            bend = np.clip(width * at_end - rise, -most, most)
            sides.append(np.where(np.abs(rise) > CLIFF, rise, rise + bend))
        return cls(key, psi, value, slope, rise, sides[0], sides[1], low, high, start)

    def at(self, psi: FloatArray, group: IntArray) -> FloatArray:
        """(...,) for psi and group of one shape."""
        low, high = self.low[group], self.high[group]
        inside = np.clip(psi, low, high)
        i = np.searchsorted(self.key, 2.0 * group + (inside - low) / (high - low), side="right") - 1
        i = np.clip(i, self.start[group], self.start[group + 1] - 2)
        width = self.psi[i + 1] - self.psi[i]
        t = np.clip((inside - self.psi[i]) / width, 0.0, 1.0)
        rise, left, right = self.rise[i], self.left[i], self.right[i]
        cubic = t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)))
        ends = np.where(psi < low, self.slope[self.start[group]], 0.0)
        ends = np.where(psi > high, self.slope[self.start[group + 1] - 1], ends)
        return np.asarray(self.value[i] + cubic + ends * (psi - inside))


def _slopes(psi: FloatArray, value: FloatArray) -> FloatArray:
    """At each point that of the parabola through it and its neighbours; beside a cliff that of the
    other side.
    """
    width, rise = np.diff(psi), np.diff(value)
    slope = rise / width
    if slope.size == 1:
        return np.repeat(slope, 2)
    out = np.empty(psi.size)
    out[1:-1] = (slope[:-1] * width[1:] + slope[1:] * width[:-1]) / (width[1:] + width[:-1])
    cliff = np.abs(rise) > CLIFF
    beside = np.flatnonzero(cliff[:-1] != cliff[1:])
    out[beside + 1] = np.where(cliff[beside], slope[beside + 1], slope[beside])
    out[0], out[-1] = slope[0], slope[-1]
    return out


@dataclass(frozen=True)
class Panels:
    """Nodes of groups of about as many panels; padded with weights of 0."""

    group: IntArray  # (groups,): which they are
    psi: FloatArray  # (groups, k)
    log_weight: FloatArray  # (groups, k): of the quadrature, times L
    edges: FloatArray  # (groups, panels + 1), padded with the last


def panels(
    curves: Sequence[Curve],
    between: Interpolants,
    population: Population,
    chunk: int,
    cells: float = CELLS,
) -> list[Panels]:
    """Nodes of all groups that say something, `chunk` groups at a time, the shortest first; a panel
    for every so many cells.
    """
    edges = [_edges(one, population, cells) for one in curves]
    todo = [g for g, one in enumerate(curves) if not one.flat]
    todo.sort(key=lambda g: edges[g].size)
    out = []
    for start in range(0, len(todo), chunk):
        group = np.array(todo[start : start + chunk])
        most = max(edges[g].size for g in group)
        table = np.stack([np.pad(edges[g], (0, most - edges[g].size), "edge") for g in group])
        half = np.diff(table)[:, :, None] / 2
        psi = (table[:, :-1, None] + half * (1 + UNIT)).reshape(group.size, -1)
        weight = np.log(np.maximum(half * WEIGHT, NOTHING)).reshape(group.size, -1)
        own = np.broadcast_to(group[:, None], psi.shape)
        out.append(Panels(group, psi, weight + between.at(psi, own), table))
    return out


def _edges(curve: Curve, population: Population, cells: float) -> FloatArray:
    """Ends of panels over where the curve matters: so many of its cells each, and none too wide."""
    kept = np.flatnonzero(curve.value > -DEEP)
    psi = curve.psi[max(kept[0] - 1, 0) : kept[-1] + 2]
    if isinstance(population, Normal):
        unit, middle = population.high - population.low, (population.low + population.high) / 2
        low, high = middle - REACH * unit, middle + REACH * unit
        inside = psi[(psi > low) & (psi < high)]
        psi = np.unique(np.concatenate([inside, np.clip(psi[[0, -1]], low, high)]))
        if psi.size < 2:  # a group beyond all that a population may be
            psi = curve.psi[[max(kept[0] - 1, 0), min(kept[-1] + 1, curve.psi.size - 1)]]
        marks = middle + unit * np.array([-2.0, 2.0])
        narrow, wide = unit / 2, 2 * unit
    else:
        middle = population.middle
        marks = middle + np.array([-MIDDLE, MIDDLE])
        narrow, wide = WIDE, WIDEST
    psi = np.unique(np.concatenate([psi, marks[(marks > psi[0]) & (marks < psi[-1])]]))
    width = np.diff(psi)
    limit = np.where((psi[1:] <= marks[0]) | (psi[:-1] >= marks[1]), wide, narrow)
    effort = np.concatenate(
        [[0.0], np.cumsum(np.maximum(1 / cells, width / limit * CELLS / cells))]
    )
    count = max(int(np.ceil(effort[-1])), 2)
    return np.interp(np.linspace(0.0, effort[-1], count + 1), effort, psi)
