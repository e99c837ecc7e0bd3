"""One-dimensional densities read off their grids: means, sds, quantiles and draws of many groups at
once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.coordinates import Axis
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.families.exponential import truncated_unit_exponential

QUANTILES = (0.05, 0.5, 0.95)
"""Those that every summary states."""
PARTS = 8
"""Each cell of the grid is cut in this many; the log density is a cubic across the cell and
straight on each part.
"""
CLIFF = 20.0
"""A log density that changes by more from one point to the next is no smooth one there."""
UNEVEN, BENDS = 0.05, 1.0
"""A slope that was read off a cell narrower than this share of the one beside it, where a patch
ends or two points all but meet, may be noise or a jump: the wider one bends by no more than twice
its rise and this.
"""
TAIL = 2 * PARTS
"""The tail's power law is read off its last two cells."""
STEEPER = 1.25
"""A tail that seems this much steeper than it can be far out is so; one that seems less steep is
not yet at its tail.
"""
NOTICED = 1e-4
"""A tail is looked at if its end holds this share of the moment."""
SLOW = 0.08
"""A power law this close to one without the moment is taken for one without."""


@dataclass(frozen=True)
class Marginal:
    """Piecewise log-linear densities of psi, one for each group; theta = axis.theta(psi)."""

    psi: FloatArray  # (points,)
    value: FloatArray  # (points,): the log density less its highest
    start: IntArray  # (groups + 1,)
    axis: Axis
    decay: FloatArray | None = None
    """(groups, 2): how fast the log density falls beyond the last floats of theta below and above;
    0 where it does not.
    """

    index: FloatArray | None = None
    """(groups,): far out theta has the density |theta|^-index, or falls faster. None where nothing
    is known.
    """

    @classmethod
    def of(
        cls,
        grid: Grid,
        axis: Axis,
        decay: FloatArray | None = None,
        index: FloatArray | None = None,
    ) -> "Marginal":
        """Interpolate a grid."""
        psi, value, start = _subdivide(grid)
        return cls(psi, value - np.repeat(grid.best, np.diff(start)), start, axis, decay, index)

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
    def _raw_mass(self) -> FloatArray:
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
        low, high = self.axis.range
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
        return np.asarray(np.add.reduceat(self._raw_mass, self.start[:-1]))

    @cached_property
    def _mass(self) -> FloatArray:
        return np.asarray(self._raw_mass / np.repeat(self._total, np.diff(self.start)))

    @cached_property
    def _cumulative(self) -> FloatArray:
        """The mass up to each point, from 0 in each group."""
        # what is no number in one group is nothing to the others
        total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(self._mass))])
        return np.asarray(total[:-1] - np.repeat(total[self.start[:-1]], np.diff(self.start)))

    def _points(self) -> list[tuple[FloatArray, FloatArray]]:
        """Two points of every part with half its mass each, which have the part's mean and variance
        of psi; and that mass.
        """
        steep = np.abs(self._rise)
        mean, variance = (
            moment / steep**k for k, moment in enumerate(truncated_unit_exponential(steep), 1)
        )
        mean = np.where(self._rise > 0, 1 - mean, mean)
        ends = np.clip([mean - np.sqrt(variance), mean + np.sqrt(variance)], 0.0, 1.0)
        return [(self.axis.theta(self.psi + x * self._width), self._mass / 2) for x in ends]

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of theta, each (groups,); infinite where the tail is so heavy that there is
        none.
        """
        points = self._points()
        # About the median, so that a far centre does not cost digits.
        centre = self.quantile(np.array([0.5]))[:, 0]
        away = [(theta - centre[self._group], mass) for theta, mass in points]
        with np.errstate(over="ignore", invalid="ignore"):  # of a tail that no float holds
            first = np.add.reduceat(sum(mass * x for x, mass in away), self.start[:-1])
            second = np.add.reduceat(sum(mass * x**2 for x, mass in away), self.start[:-1])
            size = np.add.reduceat(sum(mass * np.abs(x) for x, mass in away), self.start[:-1])
        more = [self._beyond(centre, power, inside) for power, inside in ((1, size), (2, second))]
        with np.errstate(all="ignore"):  # infinite where there is no such moment
            shift, square = first + more[0], second + more[1]
            spread = np.add.reduceat(
                sum(mass * (x - shift[self._group]) ** 2 for x, mass in away), self.start[:-1]
            )
            sd = np.where(
                np.isfinite(square),
                np.sqrt(np.maximum(spread + more[1] - more[0] ** 2, 0.0)),
                np.inf,
            )
            # numbers out of reach, which no heavy tail explains
            lost = np.isnan(first + second + centre)
            mean = np.where(np.isfinite(shift), centre + shift, np.inf)
        return np.where(lost, np.nan, mean), np.where(lost, np.nan, sd)

    def _beyond(self, centre: FloatArray, power: int, inside: FloatArray) -> FloatArray:
        """What the tails beyond the grid add to E (theta - centre)^power, each taken for a power
        law; infinite if it diverges.

        A tail counts only if what is left at its end could matter for the moment `inside`.
        """
        out = np.zeros(self.groups)
        for sign, last in ((-1.0, self.start[:-1]), (1.0, self.start[1:] - 1)):
            if np.isfinite(self.axis.upper if sign > 0 else self.axis.lower):
                continue
            before = np.clip(last - int(sign) * TAIL, self.start[:-1], self.start[1:] - 1)
            far, near = (np.abs(self.axis.theta(self.psi[at]) - centre) for at in (last, before))
            height = [
                np.exp(self.log_density[at] - self.axis.log_jacobian(self.psi[at]))
                for at in (last, before)
            ]
            with np.errstate(all="ignore"):
                # as it seems at the end of the grid
                index = np.log(height[1] / height[0]) / np.log(far / near)
                if self.index is not None:  # the end of a grid is a little steeper than the tail
                    index = np.where(index > STEEPER * self.index, index, self.index)
                left = height[0] * far ** (power + 1)
                matters = left > NOTICED * np.abs(inside)
                found = np.where(index > power + 1 + SLOW, left / (index - power - 1), np.inf)
            found = np.where(
                matters & (far > near), np.nan_to_num(found, nan=0.0, posinf=np.inf), 0.0
            )
            out = out + (sign**power) * found
        return np.nan_to_num(out, nan=np.inf, posinf=np.inf, neginf=np.inf)

    @cached_property
    def summary(self) -> FloatArray:
        """Mean, sd and the quantiles of a summary, (groups, 5)."""
        return np.column_stack([*self.moments, self.quantile(np.array(QUANTILES))])

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of theta, (groups, len(q))."""
        wanted = np.broadcast_to(np.asarray(q, dtype=float), (self.groups, np.size(q)))
        return self._invert(wanted, np.broadcast_to(np.arange(self.groups)[:, None], wanted.shape))

    def draw(self, rng: np.random.Generator, size: int, group: int) -> FloatArray:
        """Independent draws of theta from one group."""
        return self._invert(rng.random(size), np.full(size, group))

    def cdf(self, theta: FloatArray) -> FloatArray:
        """P(parameter <= theta) in each group, for theta of shape (groups,) or (groups, k)."""
        theta = np.asarray(theta, dtype=float)
        group = np.broadcast_to(np.arange(self.groups), theta.shape[::-1]).T.ravel()
        with np.errstate(divide="ignore", invalid="ignore"):
            psi = np.nan_to_num(self.axis.psi(theta.ravel()))
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
        mass = self._cumulative[low] + self._mass[low] * np.where(rise < 1, share, steep)
        mass = np.where(theta.ravel() <= self.axis.lower, 0.0, mass)
        mass = np.where(theta.ravel() >= self.axis.upper, 1.0, mass)
        return np.asarray(mass.reshape(theta.shape))

    def curve(self, group: int, tail: float = 0.002) -> tuple[FloatArray, FloatArray]:
        """theta and its density there, without the last of either tail."""
        rows = slice(self.start[group], self.start[group + 1])
        theta = self.axis.theta(self.psi[rows])
        low, high = self.quantile(np.array([tail, 1 - tail]))[group]
        keep = (theta >= low) & (theta <= high)
        return theta[keep], np.exp(self.log_density[rows] - self.axis.log_jacobian(self.psi[rows]))[
            keep
        ]

    def peaks(self, group: int, least: float = 0.005) -> int:
        """Runs of high density, each of mass at least `least`, between which it falls to a third of
        the lower peak.
        """
        rows = slice(self.start[group], self.start[group + 1])
        value, mass = self.value[rows], self._mass[rows]
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

    def _invert(self, q: FloatArray, group: IntArray) -> FloatArray:
        total = self._cumulative[self.start[1:] - 1] + self._mass[self.start[1:] - 1]
        # One search over all groups: group + cdf increases throughout.
        ladder = self._group + np.minimum(self._cumulative / total[self._group], 1 - 1e-13)
        i = np.clip(
            np.searchsorted(ladder, group + q, side="right") - 1,
            self.start[group],
            self.start[group + 1] - 1,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip((q * total[group] - self._cumulative[i]) / self._mass[i], 0.0, 1.0)
        share = np.where(self._mass[i] > 0, share, 0.0)
        rise = self._rise[i]
        with np.errstate(divide="ignore"):  # a share of 0 is at the part's start
            steep = 1 + np.log(share - (share - 1) * np.exp(-np.maximum(rise, 1.0))) / np.maximum(
                rise, 1.0
            )
        x = np.where(rise < 1, np.log1p(share * np.expm1(np.minimum(rise, 1.0))) / rise, steep)
        return self.axis.theta(self.psi[i] + np.clip(x, 0.0, 1.0) * self._width[i])


def distance(one: Marginal, other: Marginal) -> FloatArray:
    """Total variation between densities on the same points, as far as these tell, (groups,)."""
    return np.asarray(0.5 * np.add.reduceat(np.abs(one._mass - other._mass), one.start[:-1]))


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
    before, after = width[np.maximum(cells - 1, 0)], width[np.minimum(cells + 1, width.size - 1)]
    sides: list[FloatArray] = []
    for neighbour, slope_at in ((before, at[cells]), (after, at[cells + 1])):
        most = np.where(neighbour < UNEVEN * width[cells], 2 * np.abs(rise[cells]) + BENDS, np.inf)
        bend = np.clip(width[cells] * slope_at - rise[cells], -most, most)
        sides.append((rise[cells] + bend)[:, None])
    left, right = sides
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
