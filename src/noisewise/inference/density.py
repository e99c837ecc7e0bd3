"""One-dimensional densities read off their grids: means, sds, quantiles and draws of many groups at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewise.inference.axis import Axis
from noisewise.inference.grid import Grid
from noisewise.model.arrays import FloatArray, IntArray

PARTS = 8
"""Each cell of the grid is cut in this many; the log density is a cubic across the cell and straight on each part."""
BASELINE = 4.0
"""The slope at the last float of theta is taken over this much of psi."""
_GAUSS = 0.5 - 0.5 / np.sqrt(3)


@dataclass(frozen=True)
class Density:
    """Piecewise log-linear densities of psi, one for each group; theta = axis.theta(psi)."""

    psi: FloatArray  # (points,)
    value: FloatArray  # (points,): the log density less its highest
    start: IntArray  # (groups + 1,)
    axis: Axis

    @classmethod
    def of(cls, grid: Grid, axis: Axis) -> "Density":
        """Interpolate a grid."""
        psi, value, start = _subdivide(grid)
        return cls(psi, value - np.repeat(grid.best, np.diff(start)), start, axis)

    @property
    def groups(self) -> int:
        """How many densities there are."""
        return self.start.size - 1

    @cached_property
    def log_density(self) -> FloatArray:
        """Of psi, normalised."""
        return np.asarray(self.value - np.repeat(np.log(self._total), np.diff(self.start)))

    @cached_property
    def _group(self) -> IntArray:
        return np.repeat(np.arange(self.groups), np.diff(self.start))

    @cached_property
    def _rise(self) -> FloatArray:
        """The change of the log density over the part to the right of each point; 0 at the last point of a group."""
        rise = np.append(np.diff(self.value), 0.0)
        rise[self.start[1:] - 1] = 0.0
        return np.where(np.abs(rise) < 1e-12, 1e-12, rise)

    @cached_property
    def _width(self) -> FloatArray:
        width = np.append(np.diff(self.psi), 0.0)
        width[self.start[1:] - 1] = 0.0
        return width

    @cached_property
    def _raw_mass(self) -> FloatArray:
        """The mass to the right of each point, not normalised. What lies beyond the last float of theta is put at the ends."""
        steep = np.abs(self._rise)  # from the higher end, so that nothing overflows
        mass = self._width * np.exp(self.value + np.maximum(self._rise, 0.0)) * -np.expm1(-steep) / steep
        low, high = self.axis.range
        first, last = self.start[:-1], self.start[1:] - 1
        for group in np.flatnonzero((self.psi[last] >= high) | (self.psi[first] <= low)):
            rows = slice(first[group], last[group] + 1)
            psi, value = self.psi[rows], self.value[rows]
            for edge, inward, at in ((0, 1.0, first[group]), (-1, -1.0, last[group])):
                if (psi[0] <= low) if edge == 0 else (psi[-1] >= high):
                    # Beyond, the log density is straight: that of x^(a - 1) in log x.
                    inner = np.interp(psi[edge] + inward * BASELINE, psi, value)
                    slope = (inner - value[edge]) / BASELINE
                    mass[at] += np.exp(value[edge]) / slope if slope > 0 else 0.0
        return mass

    @cached_property
    def _total(self) -> FloatArray:
        """The mass of each group, not normalised."""
        return np.asarray(np.add.reduceat(self._raw_mass, self.start[:-1]))

    @cached_property
    def _mass(self) -> FloatArray:
        return np.asarray(self._raw_mass / np.repeat(self._total, np.diff(self.start)))

    @cached_property
    def _cumulative(self) -> FloatArray:
        """The mass up to each point, from 0 in each group."""
        total = np.concatenate([[0.0], np.cumsum(self._mass)])
        return np.asarray(total[:-1] - np.repeat(total[self.start[:-1]], np.diff(self.start)))

    def _points(self) -> list[tuple[FloatArray, FloatArray]]:
        """Two Gauss points of every part: theta, and its share of the mass."""
        out = []
        for x in (_GAUSS, 1 - _GAUSS):
            theta = self.axis.theta(self.psi + x * self._width)
            out.append((theta, np.exp(x * self._rise)))
        total = out[0][1] + out[1][1]
        return [(theta, self._mass * share / total) for theta, share in out]

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of theta, each (groups,)."""
        points = self._points()
        # About the median, so that a far centre does not cost digits.
        centre = self.quantile(np.array([0.5]))[:, 0]
        away = [(theta - centre[self._group], mass) for theta, mass in points]
        shift = np.add.reduceat(sum(mass * x for x, mass in away), self.start[:-1])
        square = np.add.reduceat(sum(mass * (x - shift[self._group]) ** 2 for x, mass in away), self.start[:-1])
        return centre + shift, np.sqrt(square)

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of theta, (groups, len(q))."""
        wanted = np.broadcast_to(np.asarray(q, dtype=float), (self.groups, np.size(q)))
        return self._invert(wanted, np.broadcast_to(np.arange(self.groups)[:, None], wanted.shape))

    def draw(self, rng: np.random.Generator, size: int, group: int) -> FloatArray:
        """Independent draws of theta from one group."""
        return self._invert(rng.random(size), np.full(size, group))

    def cdf(self, theta: FloatArray) -> FloatArray:
        """P(parameter <= theta) in each group, for theta of shape (groups,)."""
        psi = self.axis.psi(theta)
        low, high = self.start[:-1].copy(), self.start[1:] - 1  # bisection for the part that holds psi
        while np.any(high - low > 1):
            middle = (low + high) // 2
            right = self.psi[middle] <= psi
            low, high = np.where(right, middle, low), np.where(right, high, middle)
        x = np.clip((psi - self.psi[low]) / np.where(self._width[low] > 0, self._width[low], 1.0), 0.0, 1.0)
        rise = self._rise[low]
        share = np.expm1(x * np.minimum(rise, 1.0)) / np.expm1(np.minimum(rise, 1.0))
        steep = np.exp((x - 1) * np.maximum(rise, 1.0)) * np.expm1(-x * np.maximum(rise, 1.0)) / np.expm1(-np.maximum(rise, 1.0))
        mass = self._cumulative[low] + self._mass[low] * np.where(rise < 1, share, steep)
        return np.asarray(mass)

    def curve(self, group: int, tail: float = 0.002) -> tuple[FloatArray, FloatArray]:
        """theta and its density there, without the last of either tail."""
        rows = slice(self.start[group], self.start[group + 1])
        theta = self.axis.theta(self.psi[rows])
        low, high = self.quantile(np.array([tail, 1 - tail]))[group]
        keep = (theta >= low) & (theta <= high)
        return theta[keep], np.exp(self.log_density[rows] - self.axis.log_jacobian(self.psi[rows]))[keep]

    def peaks(self, group: int, least: float = 0.005) -> int:
        """Runs of high density, each of mass at least `least`, between which it falls to a third of the lower peak."""
        rows = slice(self.start[group], self.start[group + 1])
        value, mass = self.value[rows], self._mass[rows]
        count, start = 1, 0
        while True:
            # The deepest valley, as seen from the highest points on either side of it.
            left, right = np.maximum.accumulate(value[start:]), np.maximum.accumulate(value[start:][::-1])[::-1]
            depth = np.minimum(left, right) - value[start:]
            valley = int(np.argmax(depth > np.log(3)))
            if not depth[valley] > np.log(3):
                return count
            end = valley + int(np.argmax(depth[valley:] == 0))
            lowest = start + valley + int(np.argmin(value[start + valley : start + end + 1]))
            if mass[start:lowest].sum() > least and mass[lowest:].sum() > least:
                count += 1
            start = lowest + 1

    def _invert(self, q: FloatArray, group: IntArray) -> FloatArray:
        total = self._cumulative[self.start[1:] - 1] + self._mass[self.start[1:] - 1]
        # One search over all groups: group + cdf increases throughout.
        ladder = self._group + np.minimum(self._cumulative / total[self._group], 1 - 1e-13)
        i = np.clip(np.searchsorted(ladder, group + q, side="right") - 1, self.start[group], self.start[group + 1] - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip((q * total[group] - self._cumulative[i]) / self._mass[i], 0.0, 1.0)
        share = np.where(self._mass[i] > 0, share, 0.0)
        rise = self._rise[i]
        with np.errstate(divide="ignore"):  # a share of 0 is at the part's start
            steep = 1 + np.log(share - (share - 1) * np.exp(-np.maximum(rise, 1.0))) / np.maximum(rise, 1.0)
        x = np.where(rise < 1, np.log1p(share * np.expm1(np.minimum(rise, 1.0))) / rise, steep)
        return self.axis.theta(self.psi[i] + np.clip(x, 0.0, 1.0) * self._width[i])


def distance(one: Density, other: Density) -> FloatArray:
    """Total variation between densities on the same points, (groups,)."""
    gap = np.abs(np.exp(one.log_density) - np.exp(other.log_density))
    trapezoid = one._width * 0.5 * (gap + np.append(gap[1:], 0.0))
    return np.asarray(0.5 * np.add.reduceat(trapezoid, one.start[:-1]))


def _subdivide(grid: Grid) -> tuple[FloatArray, FloatArray, IntArray]:
    """Points of the cells' parts, the log density by cubic Hermite interpolation with parabolic slopes."""
    psi, value = grid.psi, grid.value
    width, rise = np.diff(psi), np.diff(value)
    between = grid.start[1:-1] - 1
    width[between] = 1.0
    slope = rise / width
    at = np.empty(psi.shape)  # the slope at each point: that of the parabola through it and its neighbours
    at[1:-1] = (slope[:-1] * width[1:] + slope[1:] * width[:-1]) / (width[1:] + width[:-1])
    first, last = grid.start[:-1], grid.start[1:] - 1
    at[first], at[last] = slope[first], slope[last - 1]
    cells = np.delete(np.arange(psi.size - 1), between)
    t = np.arange(PARTS) / PARTS
    h = width[cells, None]
    curve = (
        value[cells, None]
        + rise[cells, None] * (t * t * (3 - 2 * t))
        + h * at[cells, None] * (t * (1 - t) ** 2)
        - h * at[cells + 1, None] * (t * t * (1 - t))
    )
    steep = np.abs(rise[cells]) > 20  # next to a cut or a point far below: straight is safer than a cubic
    curve = np.where(steep[:, None], value[cells, None] + rise[cells, None] * t, curve)
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
