"""Piecewise log-linear densities of psi, of many groups at once: masses, quantiles, probabilities.

What is read off them as theta, or as any function of theta, is `marginal.py`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewise.inference.grid.adaptive import Grid
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.families.exponential import truncated_unit_exponential

PARTS = 8
"""Each cell of the grid is cut in this many; the log density is a cubic across the cell and
straight on each part.
"""
CLIFF = 20.0
"""A log density that changes by more from one point to the next is no smooth one there."""
BENDS = 1.0
"""A slope that was read off the cells beside one, where a patch ends or two points all but meet,
may be noise or a jump: a cell bends by no more than twice its rise and this.
"""


@dataclass(frozen=True)
class Masses:
    """Densities of psi, one for each group."""

    psi: FloatArray  # (points,)
    value: FloatArray  # (points,): the log density less its highest
    start: IntArray  # (groups + 1,)
    floats: tuple[float, float]
    """The psi whose theta is a float of its own."""
    decay: FloatArray | None = None
    """(groups, 2): how fast the log density falls beyond them below and above; 0 where it does
    not.
    """

    @classmethod
    def of(
        cls, grid: Grid, floats: tuple[float, float], decay: FloatArray | None = None
    ) -> "Masses":
        """Interpolate a grid."""
        psi, value, start = _subdivide(grid)
        return cls(psi, value - np.repeat(grid.best, np.diff(start)), start, floats, decay)

    def only(self, group: int) -> "Masses":
        """Of one group."""
        rows = self.rows(group)
        decay = None if self.decay is None else self.decay[group, None]
        start = np.array([0, rows.stop - rows.start])
        return Masses(self.psi[rows], self.value[rows], start, self.floats, decay)

    def rows(self, group: int) -> slice:
        """Where a group's points are."""
        return slice(int(self.start[group]), int(self.start[group + 1]))

    @property
    def groups(self) -> int:
        """How many densities there are."""
        return self.start.size - 1

    @cached_property
    def group(self) -> IntArray:
        """Which each point belongs to."""
        return np.repeat(np.arange(self.groups), np.diff(self.start))

    @cached_property
    def log_density(self) -> FloatArray:
        """Of psi, normalised."""
        return np.asarray(self.value - np.log(self._total)[self.group])

    @cached_property
    def _rise(self) -> FloatArray:
        """The change of the log density over the part to the right of each point; 0 at the last
        point of a group.
        """
        rise = np.append(np.diff(self.value), 0.0)
        rise[self.start[1:] - 1] = 0.0
        return np.where(np.abs(rise) < 1e-12, 1e-12, rise)

    @cached_property
    def _width(self) -> FloatArray:
        width = np.append(np.diff(self.psi), 0.0)
        width[self.start[1:] - 1] = 0.0
        return width

    @cached_property
    def _raw(self) -> FloatArray:
        """The mass to the right of each point, not normalised. What lies beyond the last float of
        theta is put at the ends.
        """
        steep = np.abs(self._rise)  # from the higher end, so that nothing overflows
        mass = (
            self._width
            * np.exp(self.value + np.maximum(self._rise, 0.0))
            * -np.expm1(-steep)
            / steep
        )
        if self.decay is None:
            return mass
        low, high = self.floats
        for side, at, reached in (
            (0, self.start[:-1], self.psi[self.start[:-1]] <= low),
            (1, self.start[1:] - 1, self.psi[self.start[1:] - 1] >= high),
        ):
            # Beyond, the log density is straight: that of x^(a - 1) in log x.
            some = np.flatnonzero(reached & (self.decay[:, side] > 0))
            mass[at[some]] += np.exp(self.value[at[some]]) / self.decay[some, side]
        return mass

    @cached_property
    def _total(self) -> FloatArray:
        """The mass of each group, not normalised."""
        return np.asarray(np.add.reduceat(self._raw, self.start[:-1]))

    @cached_property
    def mass(self) -> FloatArray:
        """To the right of each point."""
        return np.asarray(self._raw / self._total[self.group])

    @cached_property
    def _cumulative(self) -> FloatArray:
        """The mass up to each point, from 0 in each group."""
        # what is no number in one group is nothing to the others
        total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(self.mass))])
        return np.asarray(total[:-1] - np.repeat(total[self.start[:-1]], np.diff(self.start)))

    @cached_property
    def _whole(self) -> FloatArray:
        """The mass of each group as the sum above has it."""
        last = self.start[1:] - 1
        return np.asarray(self._cumulative[last] + self.mass[last])

    @cached_property
    def _ladder(self) -> FloatArray:
        """group + cdf at each point: it increases throughout, so that one search serves all, also
        past a group that is no number.
        """
        share = np.nan_to_num(self._cumulative / self._whole[self.group])
        return np.asarray(self.group + np.minimum(share, 1 - 1e-13))

    @cached_property
    def points(self) -> FloatArray:
        """Two psi of every part, (2, points), which with half its mass each have the part's mean
        and variance.
        """
        steep = np.abs(self._rise)
        mean, variance = (
            moment / steep**k for k, moment in enumerate(truncated_unit_exponential(steep), 1)
        )
        mean, sd = np.where(self._rise > 0, 1 - mean, mean), np.sqrt(variance)
        return np.asarray(self.psi + np.clip([mean - sd, mean + sd], 0.0, 1.0) * self._width)

    def total_of(self, values: FloatArray) -> FloatArray:
        """The sum over each group's points, (groups,)."""
        return np.asarray(np.add.reduceat(values, self.start[:-1]))

    def quantile(self, q: FloatArray, group: IntArray) -> FloatArray:
        """psi below which a group has the share q, each as q."""
        i = np.clip(
            np.searchsorted(self._ladder, group + q, side="right") - 1,
            self.start[group],
            self.start[group + 1] - 1,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip((q * self._whole[group] - self._cumulative[i]) / self.mass[i], 0.0, 1.0)
        share = np.where(self.mass[i] > 0, share, 0.0)
        rise = self._rise[i]
        with np.errstate(divide="ignore"):  # a share of 0 is at the part's start
            steep = 1 + np.log(share - (share - 1) * np.exp(-np.maximum(rise, 1.0))) / np.maximum(
                rise, 1.0
            )
        x = np.where(rise < 1, np.log1p(share * np.expm1(np.minimum(rise, 1.0))) / rise, steep)
        return np.asarray(self.psi[i] + np.clip(x, 0.0, 1.0) * self._width[i])

    def below(self, psi: FloatArray, group: IntArray) -> FloatArray:
        """The share of a group below psi, each as psi."""
        # bisection for the part that holds psi
        low, high = self.start[:-1][group], self.start[1:][group] - 1
        while np.any(high - low > 1):
            middle = (low + high) // 2
            right = self.psi[middle] <= psi
            low, high = np.where(right, middle, low), np.where(right, high, middle)
        x = np.clip(
            (psi - self.psi[low]) / np.where(self._width[low] > 0, self._width[low], 1.0), 0.0, 1.0
        )
        rise = self._rise[low]
        share = np.expm1(x * np.minimum(rise, 1.0)) / np.expm1(np.minimum(rise, 1.0))
        steep = (
            np.exp((x - 1) * np.maximum(rise, 1.0))
            * np.expm1(-x * np.maximum(rise, 1.0))
            / np.expm1(-np.maximum(rise, 1.0))
        )
        return np.asarray(self._cumulative[low] + self.mass[low] * np.where(rise < 1, share, steep))

    def peaks(self, group: int, least: float = 0.005) -> int:
        """Runs of high density, each of mass at least `least`, between which it falls to a third of
        the lower peak.
        """
        rows = self.rows(group)
        value, mass = self.value[rows], self.mass[rows]
        count, start = 1, 0
        while True:
            # The deepest valley, as seen from the highest points on either side of it.
            left, right = (
                np.maximum.accumulate(value[start:]),
                np.maximum.accumulate(value[start:][::-1])[::-1],
            )
            depth = np.minimum(left, right) - value[start:]
            valley = int(np.argmax(depth > np.log(3)))
            if not depth[valley] > np.log(3):
                return count
            end = valley + int(np.argmax(depth[valley:] == 0))
            lowest = start + valley + int(np.argmin(value[start + valley : start + end + 1]))
            if mass[start:lowest].sum() > least and mass[lowest:].sum() > least:
                count += 1
            start = lowest + 1


def distance(one: Masses, other: Masses) -> FloatArray:
    """Total variation between densities on the same points, as far as these tell, (groups,)."""
    return np.asarray(0.5 * one.total_of(np.abs(one.mass - other.mass)))


def _subdivide(grid: Grid) -> tuple[FloatArray, FloatArray, IntArray]:
    """Points of the cells' parts, the log density by cubic Hermite interpolation with parabolic
    slopes.
    """
    psi, value = grid.psi, grid.value
    width, rise = np.diff(psi), np.diff(value)
    between = grid.start[1:-1] - 1
    width[between] = 1.0
    slope = rise / width
    # the slope at each point: that of the parabola through it and its neighbours
    at = np.empty(psi.shape)
    at[1:-1] = (slope[:-1] * width[1:] + slope[1:] * width[:-1]) / (width[1:] + width[:-1])
    # next to a cut or a point far below: straight is safer than a cubic, there and beside it
    cliff = np.abs(rise) > CLIFF
    beside = np.flatnonzero(cliff[:-1] != cliff[1:])
    at[beside + 1] = np.where(cliff[beside], slope[beside + 1], slope[beside])
    first, last = grid.start[:-1], grid.start[1:] - 1
    at[first], at[last] = slope[first], slope[last - 1]
    cells = np.delete(np.arange(psi.size - 1), between)
    t = np.arange(PARTS) / PARTS
    h, own = width[cells, None], rise[cells, None]
    most = 2 * np.abs(own) + BENDS
    left, right = (
        own + np.clip(h * slope_at[:, None] - own, -most, most)
        for slope_at in (at[cells], at[cells + 1])
    )
    curve = (
        value[cells, None]
        + own * (t * t * (3 - 2 * t))
        + left * (t * (1 - t) ** 2)
        - right * (t * t * (1 - t))
    )
    curve = np.where(cliff[cells, None], value[cells, None] + rise[cells, None] * t, curve)
    points = psi[cells, None] + h * t
    counts = np.diff(grid.start)
    start = np.concatenate([[0], np.cumsum((counts - 1) * PARTS + 1)])
    ends = start[1:] - 1
    out_psi, out_value = np.empty(start[-1]), np.empty(start[-1])
    inner = np.ones(start[-1], dtype=bool)
    inner[ends] = False
    out_psi[inner], out_value[inner] = points.ravel(), curve.ravel()
    out_psi[ends], out_value[ends] = psi[last], value[last]
    return out_psi, out_value, start
